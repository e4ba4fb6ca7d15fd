(package_clause name: (_) @name body: (_) @body) @space.package
(package_object name: (_) @name body: (_)? @body) @class.object
(class_definition name: (_) @name body: (_)? @body) @class.class
(object_definition name: (_) @name body: (_)? @body) @class.object
(trait_definition name: (_) @name body: (_)? @body) @class.trait
(enum_definition name: (_) @name body: (_)? @body) @class.enum
(given_definition name: (_) @name body: (_)? @body) @class.given
(given_definition return_type: (generic_type type: (_) @name) body: (_) @body) @class.given
(function_definition name: (_) @name body: (_)? @body) @method.function
(function_declaration name: (_) @name) @method.function
(type_definition name: (_) @name) @const.type
(compilation_unit (val_definition pattern: (identifier) @name) @const.value)
(compilation_unit (import_declaration) @import)
