-- list_nodes: server nodes whose lease has not ended (at the clock $1). One row a server start: small.
-- scans: node
select id, address, expires_at from node where expires_at > (select sichen_now($1::bigint[])) order by id
