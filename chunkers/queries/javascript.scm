; What only JavaScript's grammar names so.
(field_definition property: (_) @name value: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]) @method.method
