-- get_duty: a duty's owner and term.
select key, term, node_id, ver from duty where key = $1
