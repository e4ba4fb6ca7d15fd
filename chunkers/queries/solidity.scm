(contract_declaration name: (_) @name body: (_) @body) @class.contract
(interface_declaration name: (_) @name body: (_) @body) @class.interface
(library_declaration name: (_) @name body: (_) @body) @class.library
(struct_declaration name: (_) @name body: (_) @body) @class.struct
(enum_declaration name: (_) @name body: (_) @body) @class.enum
(function_definition name: (_) @name body: (_)? @body) @method.function
(modifier_definition name: (_) @name body: (_)? @body) @method.modifier
(constructor_definition "constructor" @name body: (_) @body) @method.constructor
(fallback_receive_definition ["receive" "fallback"] @name body: (_)? @body) @method.function
(event_definition name: (_) @name) @const.event
(error_declaration name: (_) @name) @const.error
(user_defined_type_definition name: (_) @name) @const.type
(constant_variable_declaration name: (_) @name) @const.constant
(state_variable_declaration name: (_) @name) @const.variable
(import_directive) @import
