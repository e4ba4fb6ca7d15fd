(data_type name: (_) @name constructors: (_)? @body) @class.data
(newtype name: (_) @name) @class.newtype
(class name: (_) @name declarations: (_)? @body) @class.class
(instance name: (_) @owner patterns: (_) @name declarations: (_)? @body) @class.instance
(declarations (signature name: (_) @name) @method.signature)
(class_declarations (signature name: (_) @name) @method.signature)
(class_declarations (function name: (_) @name match: (_) @body) @method.function)
(instance_declarations (function name: (_) @name match: (_) @body) @method.function)
(instance_declarations (bind name: (_) @name match: (_) @body) @method.function)
(declarations (function name: (_) @name match: (_) @body) @method.function)
(declarations (bind name: (_) @name match: (_) @body) @method.value)
(type_synonym name: (_) @name) @const.type
(import) @import
