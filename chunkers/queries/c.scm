; C, and the part of C++ that is C. Names that no pattern reaches are read from the signature.
(function_definition
  declarator: [
    (function_declarator declarator: (_) @name)
    (pointer_declarator declarator: (function_declarator declarator: (_) @name))
    (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)))]
  body: (_) @body) @method.function
(function_definition body: (compound_statement) @body) @method.function
(type_definition type: (struct_specifier body: (_) @body) declarator: (type_identifier) @name) @class.struct
(type_definition type: (union_specifier body: (_) @body) declarator: (type_identifier) @name) @class.union
(type_definition type: (enum_specifier body: (_) @body) declarator: (type_identifier) @name) @class.enum
(struct_specifier name: (_) @name body: (_) @body) @class.struct
(union_specifier name: (_) @name body: (_) @body) @class.union
(enum_specifier name: (_) @name body: (_) @body) @class.enum
(type_definition declarator: (type_identifier) @name) @const.type
; A macro of several lines is as good as a function.
(preproc_function_def name: (_) @name value: (_) @body (#match? @body "\\S\\s*\n")) @method.macro
(preproc_def name: (_) @name value: (_) @body (#match? @body "\\S\\s*\n")) @method.macro
(preproc_function_def name: (_) @name) @const.macro
(preproc_def name: (_) @name) @const.macro
(preproc_include) @import
; Prototypes, where nothing else can look like one; a header whose macros make no sense to the grammar is one ERROR.
(translation_unit (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(preproc_ifdef (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(preproc_if (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(preproc_else (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(preproc_elif (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(declaration_list (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(ERROR (declaration declarator: [
  (function_declarator declarator: (identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))]) @method.prototype)
(ERROR (field_declaration declarator: [
  (function_declarator declarator: (field_identifier) @name)
  (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))]) @method.prototype)
