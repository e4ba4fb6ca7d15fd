; Groups: class, method, space (qualifies names only), const (a symbol, never a chunk); what follows the dot is the kind.
(class_definition name: (identifier) @name body: (block) @body) @class.class
(function_definition name: (identifier) @name body: (block) @body) @method.function
(decorated_definition definition: (_) @inner) @outer
; A file with broken syntax may have ERROR for its root.
(module (expression_statement (assignment left: (identifier) @name)) @const.constant)
(ERROR (expression_statement (assignment left: (identifier) @name)) @const.constant)
(module [(import_statement) (import_from_statement) (future_import_statement)] @import)
(ERROR [(import_statement) (import_from_statement) (future_import_statement)] @import)
