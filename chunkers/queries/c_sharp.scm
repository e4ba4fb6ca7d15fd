; A namespace without braces reaches to the end of the file (@open is what it reaches to the end of).
(compilation_unit (file_scoped_namespace_declaration name: (_) @name) @space.namespace) @open
(namespace_declaration name: (_) @name body: (_) @body) @space.namespace
(class_declaration name: (_) @name body: (_)? @body) @class.class
(struct_declaration name: (_) @name body: (_)? @body) @class.struct
(record_declaration name: (_) @name body: (_)? @body) @class.record
(interface_declaration name: (_) @name body: (_)? @body) @class.interface
(enum_declaration name: (_) @name body: (_)? @body) @class.enum
(delegate_declaration name: (_) @name) @const.delegate
(method_declaration name: (_) @name body: (_)? @body) @method.method
(constructor_declaration name: (_) @name body: (_)? @body) @method.constructor
(destructor_declaration "~" name: (_) body: (_)? @body) @method.destructor
(operator_declaration operator: _ @name body: (_)? @body) @method.operator
(conversion_operator_declaration type: (_) @name body: (_)? @body) @method.operator
(indexer_declaration "this" @name accessors: (_) @body) @method.indexer
(indexer_declaration "this" @name value: (_) @body) @method.indexer
(property_declaration name: (_) @name accessors: (accessor_list (accessor_declaration body: (_))) @body) @method.property
(property_declaration name: (_) @name value: (arrow_expression_clause) @body) @method.property
(property_declaration name: (_) @name) @const.property
(event_declaration name: (_) @name accessors: (_) @body) @method.event
(local_function_statement name: (_) @name body: (_)? @body) @method.function
(field_declaration (modifier) @m (variable_declaration (variable_declarator name: (_) @name)) (#eq? @m "const")) @const.constant
(using_directive) @import
