; As Terraform calls them: aws_instance.web, variable.replicas.
(config_file (body (block (identifier) . (string_lit) @owner . (string_lit) @name (block_start) @body) @method.block))
(config_file (body (block (identifier) @owner . (string_lit) @name . (block_start) @body) @method.block))
(config_file (body (block (identifier) @name . (block_start) @body) @method.block))
