(function_definition name: (_) @name body: (_) @body) @method.function
(program (declaration_command (variable_assignment name: (_) @name)) @const.variable)
(program (variable_assignment name: (_) @name (#match? @name "^[A-Z][A-Z0-9_]*$")) @const.variable)
(program (command name: (_) @call (#any-of? @call "source" ".")) @import)
