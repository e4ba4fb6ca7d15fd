(variable_declaration . (identifier) @name (struct_declaration) @body) @class.struct
(variable_declaration . (identifier) @name (enum_declaration) @body) @class.enum
(variable_declaration . (identifier) @name (union_declaration) @body) @class.union
(function_declaration name: (_) @name body: (_)? @body) @method.function
(test_declaration [(string) (identifier)] @name (block) @body) @method.test
(source_file (variable_declaration . (identifier) @name) @const.constant)
(variable_declaration (builtin_function (builtin_identifier) @call (#eq? @call "@import"))) @import
