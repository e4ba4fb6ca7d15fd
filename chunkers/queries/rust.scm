(struct_item name: (_) @name body: (_)? @body) @class.struct
(union_item name: (_) @name body: (_) @body) @class.union
(enum_item name: (_) @name body: (_) @body) @class.enum
(trait_item name: (_) @name body: (_) @body) @class.trait
(impl_item type: [
  (type_identifier) @name
  (generic_type type: (type_identifier) @name)
  (scoped_type_identifier name: (type_identifier) @name)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
  (reference_type type: (type_identifier) @name)
  (reference_type type: (generic_type type: (type_identifier) @name))
  (primitive_type) @name
  (tuple_type) @name
  (array_type) @name
  (dynamic_type) @name] body: (declaration_list) @body) @class.impl
(mod_item name: (_) @name body: (declaration_list) @body) @space.module
(function_item name: (_) @name body: (_) @body) @method.function
(function_signature_item name: (_) @name) @method.function
(macro_definition name: (_) @name) @method.macro
(type_item name: (_) @name) @const.type
(const_item name: (_) @name) @const.constant
(static_item name: (_) @name) @const.static
(source_file (use_declaration) @import)
; Items wrapped in a macro (cfg_rt! { ... }) are parsed once more as if they stood alone.
(source_file (macro_invocation (token_tree) @inject))
(source_file (expression_statement (macro_invocation (token_tree) @inject)))
(declaration_list (macro_invocation (token_tree) @inject))
