; What a companion object holds is named as if it stood in its class: that is how it is called.
(class_declaration "interface" name: (_) @name (class_body)? @body) @class.interface
(class_declaration name: (_) @name (enum_class_body) @body) @class.enum
(class_declaration name: (_) @name (class_body)? @body) @class.class
(object_declaration name: (_) @name (class_body)? @body) @class.object
(enum_entry . (identifier) @name (class_body) @body) @space.entry
(function_declaration (user_type . (identifier) @owner) "." name: (_) @name (function_body)? @body) @method.function
(function_declaration name: (_) @name (function_body)? @body) @method.function
(secondary_constructor "constructor" @name (block)? @body) @method.constructor
(property_declaration (variable_declaration (identifier) @name) (getter (function_body) @body)) @method.property
(source_file (property_declaration (variable_declaration (identifier) @name)) @const.property)
(type_alias type: (identifier) @name) @const.type
(import) @import
