-- end_node: end a node's lease at ?2 (now), unless it has ended (guard).
update node set expires_at = ?2 where id = ?1 and expires_at > ?2
