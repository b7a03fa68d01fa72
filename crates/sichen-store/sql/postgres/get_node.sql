-- get_node: one server node.
select id, address, expires_at from node where id = $1
