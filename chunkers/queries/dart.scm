; A body stands beside its signature, not in it; a definition reaches to the end of its body.
(class_definition name: (_) @name body: (_) @body) @class.class
(mixin_declaration (identifier) @name (class_body) @body) @class.mixin
(enum_declaration name: (_) @name body: (_) @body) @class.enum
(extension_declaration name: (_) @name body: (_) @body) @class.extension
((method_signature [
  (function_signature name: (_) @name)
  (getter_signature name: (_) @name)
  (setter_signature name: (_) @name)
  (operator_signature "operator" @name)
  (constructor_signature name: (_) @name)
  (factory_constructor_signature (identifier) (identifier)? @name)]) @method.method . (function_body) @body)
((function_signature name: (_) @name) @method.function . (function_body) @body)
(type_alias . (type_identifier) @name) @const.type
(program (static_final_declaration_list (static_final_declaration . (identifier) @name)) @const.constant)
(import_or_export) @import
