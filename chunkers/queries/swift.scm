(class_declaration declaration_kind: "struct" name: (_) @name body: (_) @body) @class.struct
(class_declaration declaration_kind: "enum" name: (_) @name body: (_) @body) @class.enum
(class_declaration declaration_kind: "actor" name: (_) @name body: (_) @body) @class.actor
(class_declaration declaration_kind: "extension" name: (_) @name body: (_) @body) @class.extension
(class_declaration name: (_) @name body: (_) @body) @class.class
(protocol_declaration name: (_) @name body: (_) @body) @class.protocol
(function_declaration "func" . _ @name body: (_)? @body) @method.function
(protocol_function_declaration "func" . _ @name) @method.function
(init_declaration "init" @name body: (_)? @body) @method.initializer
(deinit_declaration "deinit" @name body: (_) @body) @method.deinitializer
(subscript_declaration "subscript" @name (computed_property) @body) @method.subscript
(property_declaration name: (pattern bound_identifier: (_) @name) computed_value: (_) @body) @method.property
(source_file (property_declaration name: (pattern bound_identifier: (_) @name)) @const.constant)
(typealias_declaration . (modifiers)? . "typealias" . name: (type_identifier) @name) @const.type
(import_declaration) @import
