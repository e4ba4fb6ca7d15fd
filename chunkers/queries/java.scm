(class_declaration name: (_) @name body: (_) @body) @class.class
(interface_declaration name: (_) @name body: (_) @body) @class.interface
(enum_declaration name: (_) @name body: (_) @body) @class.enum
(record_declaration name: (_) @name body: (_) @body) @class.record
(annotation_type_declaration name: (_) @name body: (_) @body) @class.annotation
(method_declaration name: (_) @name body: (block)? @body) @method.method
(constructor_declaration name: (_) @name body: (_) @body) @method.constructor
(compact_constructor_declaration name: (_) @name body: (_) @body) @method.constructor
(annotation_type_element_declaration name: (_) @name) @method.method
(import_declaration) @import
