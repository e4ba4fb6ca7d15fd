(call target: (identifier) @call (arguments . (alias) @name) (do_block) @body (#eq? @call "defmodule")) @class.module
(call target: (identifier) @call (arguments . (alias) @name) (do_block) @body (#eq? @call "defprotocol")) @class.protocol
(call target: (identifier) @call (arguments . (alias) @name) (do_block) @body (#eq? @call "defimpl")) @class.implementation
(call target: (identifier) @call
  (arguments . [
    (call target: (identifier) @name)
    (identifier) @name
    (binary_operator left: [(call target: (identifier) @name) (identifier) @name] operator: "when")])
  (do_block) @body
  (#any-of? @call "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate")) @method.function
(call target: (identifier) @call
  (arguments . [
    (call target: (identifier) @name)
    (identifier) @name
    (binary_operator left: [(call target: (identifier) @name) (identifier) @name] operator: "when")]
    (keywords)? @body)
  (#any-of? @call "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate")) @method.function
(call target: (identifier) @call (arguments . (string) @name) (do_block) @body (#any-of? @call "describe" "test" "feature" "scenario")) @method.test
(do_block (call target: (identifier) @call (#any-of? @call "use" "alias" "import" "require")) @import)
