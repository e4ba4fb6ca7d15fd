(function_declaration name: (method_index_expression table: (_) @owner method: (_) @name) body: (_)? @body) @method.function
(function_declaration name: (_) @name body: (_)? @body) @method.function
(assignment_statement (variable_list . name: (_) @name)
  (expression_list . value: (function_definition body: (_)? @body))) @method.function
(assignment_statement (variable_list . name: (_) @name) (expression_list . value: (table_constructor) @body)) @space.object
(field name: (_) @name value: (function_definition body: (_)? @body)) @method.function
(function_call name: (identifier) @call arguments: (arguments . (string) @name (function_definition body: (_)? @body))
  (#any-of? @call "describe" "context" "it" "test" "pending")) @method.test
(chunk (variable_declaration (assignment_statement (variable_list . name: (identifier) @name))) @const.variable)
(chunk (variable_declaration (assignment_statement (expression_list
  . value: (function_call name: (identifier) @call (#eq? @call "require"))))) @import)
