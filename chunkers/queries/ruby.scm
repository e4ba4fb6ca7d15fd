(module name: (_) @name body: (_)? @body) @class.module
(class name: (_) @name body: (_)? @body) @class.class
(assignment left: (constant) @name
  right: (call receiver: (constant) @what method: (identifier) @call block: (_ body: (_) @body))
  (#any-of? @what "Struct" "Class" "Module" "Data") (#any-of? @call "new" "define")) @class.class
(method name: (_) @name body: (_)? @body) @method.function
(singleton_method name: (_) @name body: (_)? @body) @method.function
(call method: (identifier) @call arguments: (argument_list . [(simple_symbol) (string)] @name) block: (_ body: (_) @body)
  (#eq? @call "define_method")) @method.function
(call method: (identifier) @call arguments: (argument_list . (_) @name) block: (_ body: (_) @body)
  (#any-of? @call "describe" "context" "feature" "it" "specify" "scenario" "test" "shared_examples" "shared_context")) @method.test
(call method: (identifier) @call arguments: (argument_list . [(simple_symbol) (string) (pair key: (_) @name)]) block: (_ body: (_) @body)
  (#any-of? @call "task" "file" "namespace")) @method.task
(call method: (identifier) @call arguments: (argument_list . [(simple_symbol) (string)] @name) block: (_ body: (_) @body)
  (#any-of? @call "task" "file" "namespace")) @method.task
(program (assignment left: (constant) @name) @const.constant)
(body_statement (assignment left: (constant) @name) @const.constant)
(program (call method: (identifier) @call (#any-of? @call "require" "require_relative" "load" "autoload")) @import)
