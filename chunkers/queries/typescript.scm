; What only TypeScript's grammar has.
(abstract_class_declaration name: (_) @name body: (class_body) @body) @class.class
(export_statement declaration: (abstract_class_declaration) @inner) @outer
(interface_declaration name: (_) @name body: (_) @body) @class.interface
(enum_declaration name: (_) @name body: (_) @body) @class.enum
(type_alias_declaration name: (_) @name) @class.type
(internal_module name: (_) @name body: (_) @body) @space.namespace
(module name: (_) @name body: (_) @body) @space.module
(public_field_definition name: (_) @name
  value: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]) @method.method
(method_signature name: (_) @name) @method.method
(abstract_method_signature name: (_) @name) @method.method
(function_signature name: (_) @name) @method.function
