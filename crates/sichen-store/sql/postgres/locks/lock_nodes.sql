-- lock_nodes: node $2 and the owners of the duties $1.
select n.* from node n
where id = $2 or id in (select node_id from duty where key = any($1::text[])) order by id for no key update
