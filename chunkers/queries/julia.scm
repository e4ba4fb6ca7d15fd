(module_definition name: (_) @name) @space.module
(struct_definition (type_head [
  (identifier) @name
  (parametrized_type_expression . (identifier) @name)
  (binary_expression . (identifier) @name)
  (binary_expression . (parametrized_type_expression . (identifier) @name))])) @class.struct
(abstract_definition (type_head (identifier) @name)) @const.type
(function_definition (signature [
  (call_expression . (_) @name)
  (typed_expression . (call_expression . (_) @name))
  (where_expression . (call_expression . (_) @name))
  (where_expression . (typed_expression . (call_expression . (_) @name)))]) . (_)? @body) @method.function
(macro_definition (signature (call_expression . (_) @name)) . (_)? @body) @method.macro
(assignment . (call_expression . (_) @name) (operator) . (_) @body) @method.function
(const_statement (assignment . (identifier) @name)) @const.constant
[(using_statement) (import_statement)] @import
