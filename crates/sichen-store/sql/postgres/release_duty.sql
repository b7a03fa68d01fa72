-- release_duty: a duty's owner gives it up, if the term is still its own.
update duty set node_id = null, ver = ver + 1 where key = $1 and term = $2 and node_id is not null
