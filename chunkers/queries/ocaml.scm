(module_definition (module_binding (module_name) @name body: (_)? @body)) @class.module
(module_type_definition (module_type_name) @name body: (_)? @body) @class.signature
(class_definition (class_binding (class_name) @name body: (_) @body)) @class.class
(method_definition (method_name) @name body: (_)? @body) @method.method
(compilation_unit (value_definition . (let_binding pattern: (value_name) @name body: (_) @body)) @method.function)
(structure (value_definition . (let_binding pattern: (value_name) @name body: (_) @body)) @method.function)
(value_specification (value_name) @name) @method.value
(type_definition . (type_binding name: (_) @name)) @const.type
(exception_definition (constructor_declaration (constructor_name) @name)) @const.exception
(compilation_unit (open_module) @import)
