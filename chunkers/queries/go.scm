; A type is known by its spec, whether grouped in parentheses or not; "type" comes from the line.
(type_spec name: (_) @name type: (struct_type (field_declaration_list) @body)) @class.struct
(type_spec name: (_) @name type: (interface_type)) @class.interface
(type_spec name: (_) @name) @class.type
(type_alias name: (_) @name) @class.type
(method_elem name: (_) @name) @method.method
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (generic_type type: (type_identifier) @owner)
    (pointer_type (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))]))
  name: (_) @name body: (block)? @body) @method.method
(function_declaration name: (_) @name body: (block)? @body) @method.function
(source_file (var_declaration (var_spec name: (_) @name value: (expression_list . (func_literal body: (block) @body)))) @method.function)
(source_file (const_declaration (const_spec name: (_) @name) @const.constant))
(source_file (var_declaration (var_spec name: (_) @name) @const.variable))
(source_file (var_declaration (var_spec_list (var_spec name: (_) @name) @const.variable)))
(import_declaration) @import
