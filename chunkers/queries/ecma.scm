; What JavaScript and TypeScript share.
(class_declaration name: (_) @name body: (class_body) @body) @class.class
(variable_declarator name: (identifier) @name value: (class body: (class_body) @body)) @class.class
(export_statement declaration: (class_declaration) @inner) @outer
(export_statement value: (class body: (class_body) @body)) @class.default
(method_definition name: (_) @name body: (statement_block) @body) @method.method
(function_declaration name: (identifier) @name body: (statement_block) @body) @method.function
(generator_function_declaration name: (identifier) @name body: (statement_block) @body) @method.function
(export_statement value: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]) @method.default
(variable_declarator name: (identifier) @name
  value: [(function_expression body: (_) @body) (arrow_function body: (_) @body) (generator_function body: (_) @body)]) @method.function
(variable_declarator name: (identifier) @name
  value: (call_expression arguments: (arguments . [(function_expression body: (_) @body) (arrow_function body: (_) @body)]))) @method.function
(assignment_expression left: [(identifier) (member_expression)] @name
  right: [(function_expression body: (_) @body) (arrow_function body: (_) @body) (generator_function body: (_) @body)]) @method.function
(assignment_expression left: [(identifier) (member_expression)] @name right: (class body: (class_body) @body)) @class.class
(pair key: (_) @name value: [(function_expression body: (_) @body) (arrow_function body: (_) @body)]) @method.method
(variable_declarator name: (identifier) @name value: (object)) @space.object
(assignment_expression left: [(identifier) (member_expression)] @name right: (object)) @space.object
(call_expression
  function: [(identifier) @call (member_expression object: (identifier) @call)]
  arguments: (arguments . [(string) (template_string)] @name
    [(function_expression body: (_) @body) (arrow_function body: (_) @body)])
  (#any-of? @call "describe" "context" "suite" "it" "test" "specify" "fdescribe" "fit" "xdescribe" "xit")) @method.test
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @const.constant)
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name))) @const.constant)
(program (import_statement) @import)
(program (lexical_declaration (variable_declarator
  value: (call_expression function: (identifier) @call (#eq? @call "require")))) @import)
