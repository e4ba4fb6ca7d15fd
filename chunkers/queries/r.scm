; Classes are calls, and methods their named arguments.
(binary_operator lhs: (identifier) @name
  rhs: (call function: [(identifier) @call (namespace_operator rhs: (identifier) @call)] arguments: (_) @body)
  (#any-of? @call "R6Class" "setRefClass" "setClass" "ggproto" "new_class")) @class.class
(program (call function: (identifier) @call arguments: (arguments . (argument value: (string content: (_) @name)))
  (#any-of? @call "setClass" "setRefClass" "setClassUnion")) @class.class)
(call function: [(identifier) @call (namespace_operator rhs: (identifier) @call)]
  arguments: (arguments (argument value: (call
    arguments: (arguments (argument name: (_) @name value: (function_definition body: (_) @body)) @method.method))))
  (#any-of? @call "R6Class" "setRefClass" "new_class"))
(call function: (identifier) @call
  arguments: (arguments (argument name: (_) @name value: (function_definition body: (_) @body)) @method.method)
  (#eq? @call "ggproto"))
; S4: a method is qualified by the class that it is for.
(program (call function: (identifier) @call
  arguments: (arguments
    . (argument value: (string content: (_) @name))
    . (comma)
    . (argument value: [
        (string content: (_) @owner)
        (call arguments: (arguments . (argument value: (string content: (_) @owner))))])
    (argument value: (function_definition body: (_) @body)))
  (#any-of? @call "setMethod" "setReplaceMethod")) @method.method)
(program (call function: (identifier) @call
  arguments: (arguments . (argument value: (string content: (_) @name))
    (argument value: (function_definition body: (_) @body)))
  (#any-of? @call "setGeneric" "setMethod" "setReplaceMethod" "setValidity")) @method.function)
(call function: (identifier) @call
  arguments: (arguments . (argument value: (string content: (_) @name)) (argument value: (braced_expression) @body))
  (#any-of? @call "test_that" "describe" "it")) @method.test
(binary_operator lhs: [(identifier) (string) (extract_operator)] @name operator: ["<-" "=" "<<-"]
  rhs: (function_definition body: (_) @body)) @method.function
(program (binary_operator lhs: (identifier) @name operator: ["<-" "=" "<<-"]) @const.variable)
(program (call function: (identifier) @call (#any-of? @call "library" "require" "source")) @import)
