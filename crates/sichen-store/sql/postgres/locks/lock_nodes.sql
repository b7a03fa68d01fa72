-- lock_nodes: node $2 and the owners of the duties $1.
select n.* from node n
where id = any(array(select node_id from duty where key = any($1::text[]) and node_id is not null) || $2::bigint)
order by id for no key update
