-- shorten_node: an earlier end of a lease that nobody has renewed (guard: its end is still ?2).
update node set expires_at = ?3 where id = ?1 and expires_at = ?2 and ?3 < ?2
