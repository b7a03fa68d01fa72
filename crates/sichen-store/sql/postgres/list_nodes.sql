-- list_nodes: server nodes whose lease has not ended ($1: now). One row a server start: small.
-- scans: node
select id, address, expires_at from node where expires_at > $1 order by id
