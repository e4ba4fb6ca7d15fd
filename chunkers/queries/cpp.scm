; What only C++ has.
(class_specifier name: (_) @name body: (_) @body) @class.class
(namespace_definition name: (_) @name body: (_) @body) @space.namespace
(function_definition
  declarator: (reference_declarator (function_declarator declarator: (_) @name))
  body: (_) @body) @method.function
(function_definition declarator: (function_declarator declarator: (_) @name)) @method.function
(concept_definition name: (_) @name) @const.concept
(alias_declaration name: (_) @name) @const.type
(template_declaration [(function_definition) (class_specifier) (struct_specifier) (union_specifier) (alias_declaration)] @inner) @outer
(using_declaration) @import
