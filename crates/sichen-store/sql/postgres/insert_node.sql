-- insert_node: a server node registers.
insert into node (id, address, expires_at) values ($1, $2, $3)
