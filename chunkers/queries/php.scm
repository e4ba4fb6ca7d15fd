; A namespace without braces reaches to the next one (@open is what it reaches to the end of at most).
(program (namespace_definition name: (_) @name !body) @space.namespace) @open
(namespace_definition name: (_) @name body: (_) @body) @space.namespace
(class_declaration name: (_) @name body: (_) @body) @class.class
(interface_declaration name: (_) @name body: (_) @body) @class.interface
(trait_declaration name: (_) @name body: (_) @body) @class.trait
(enum_declaration name: (_) @name body: (_) @body) @class.enum
(method_declaration name: (_) @name body: (_)? @body) @method.method
(function_definition name: (_) @name body: (_) @body) @method.function
(assignment_expression left: (variable_name (name) @name)
  right: [(anonymous_function body: (_) @body) (arrow_function body: (_) @body)]) @method.function
(const_declaration (const_element . (name) @name)) @const.constant
(namespace_use_declaration) @import
