(create_table (object_reference) @name) @class.table
(create_view (object_reference) @name) @class.view
(create_materialized_view (object_reference) @name) @class.view
(create_type (object_reference) @name) @class.type
(create_function (object_reference) @name (function_body) @body) @method.function
(create_trigger (object_reference) @name) @method.trigger
(create_index column: (identifier) @name) @const.index
