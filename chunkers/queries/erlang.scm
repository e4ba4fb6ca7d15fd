; A file is a module; a clause of a function is a definition, as the arity of clauses may differ.
(source_file (module_attribute name: (_) @name) @space.module) @open
(fun_decl clause: (function_clause name: (_) @name body: (_) @body)) @method.function
((spec) @outer . (comment)* . (fun_decl) @inner)
(record_decl name: (_) @name) @class.record
(callback fun: (_) @name) @method.callback
(type_alias name: (type_name name: (_) @name)) @const.type
(opaque name: (type_name name: (_) @name)) @const.type
(pp_define lhs: (macro_lhs name: (_) @name)) @const.macro
[(pp_include) (pp_include_lib) (import_attribute)] @import
