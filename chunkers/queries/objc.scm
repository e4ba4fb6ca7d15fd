; What Objective-C adds to C.
(class_interface . (identifier) @name) @class.interface
(class_implementation . (identifier) @name) @class.implementation
(protocol_declaration . (identifier) @name) @class.protocol
(method_definition (method_type) . (identifier) @name (compound_statement) @body) @method.method
(method_declaration (method_type) . (identifier) @name) @method.method
