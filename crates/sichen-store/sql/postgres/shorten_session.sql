-- shorten_session: an earlier end of a lease that nobody has renewed (guard: its end is still $2).
update session set expires_at = $3 where id = $1 and expires_at = $2 and $3 < $2 and ended_at is null
