; Everything is a list: what its first symbol says. A body begins at the docstring, if there is one.
(source (list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) (#any-of? @call "ns" "in-ns")) @space.namespace) @open
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (str_lit)? @body
  (#any-of? @call "defprotocol" "definterface")) @class.protocol
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (vec_lit)
  (#any-of? @call "defrecord" "deftype")) @class.record
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name)
  (#any-of? @call "extend-type" "extend-protocol")) @class.extension
(list_lit . (sym_lit name: (_) @call) (list_lit . (sym_lit name: (_) @name) . (vec_lit)) @method.signature
  (#any-of? @call "defprotocol" "definterface"))
(list_lit . (sym_lit name: (_) @call) (list_lit . (sym_lit name: (_) @name) . [(vec_lit) (list_lit)] @body) @method.method
  (#any-of? @call "defrecord" "deftype" "extend-type" "extend-protocol"))
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (_)? @body
  (#eq? @call "defmacro")) @method.macro
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (_)? @body
  (#eq? @call "deftest")) @method.test
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) (#any-of? @call "def" "defonce")) @const.variable
; Whatever else defines: defn, defmethod, and what macros add. Arguments are part of the signature.
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (_) . (vec_lit) . (_)? @body
  (#eq? @call "defmethod")) @method.function
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . (vec_lit) . (_)? @body
  (#match? @call "^def(?!ault)[a-z-]+$")) @method.function
(list_lit . (sym_lit name: (_) @call) . (sym_lit name: (_) @name) . [(str_lit) (list_lit) (map_lit)]? @body
  (#match? @call "^def(?!ault)[a-z-]+$")) @method.function
(source (list_lit . (sym_lit name: (_) @call) (#any-of? @call "require" "use" "import")) @import)
