; A package without a block reaches to the next one (@open is what it reaches to the end of at most). Names are absolute.
(package_statement name: (_) @name (block) @body @open) @class.package
(source_file (package_statement name: (_) @name) @class.package) @open
(class_statement name: (_) @name (block) @body) @class.class
(source_file (class_statement name: (_) @name) @class.class) @open
(subroutine_declaration_statement name: (_) @name body: (_) @body) @method.function
(method_declaration_statement name: (_) @name body: (_) @body) @method.method
(assignment_expression
  left: [
    (variable_declaration variable: (scalar (varname) @name))
    (scalar (varname) @name)
    (glob (varname) @name)]
  right: (anonymous_subroutine_expression body: (_) @body)) @method.function
(ambiguous_function_call_expression function: (function) @call
  arguments: (list_expression
    . [(string_literal content: (_) @name) (interpolated_string_literal content: (_) @name)]
    (anonymous_subroutine_expression body: (_) @body))
  (#any-of? @call "subtest" "describe" "it")) @method.test
(ambiguous_function_call_expression function: (function) @call
  arguments: (list_expression . [(autoquoted_bareword) (string_literal)] @name)
  (#any-of? @call "has" "option")) @const.attribute
(use_statement module: (package) @call (list_expression . (autoquoted_bareword) @name)
  (#eq? @call "constant")) @const.constant
(assignment_expression left: (variable_declaration "our" variable: (scalar (varname) @name))) @const.variable
(use_statement) @import
