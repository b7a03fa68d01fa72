-- shorten_session: an earlier end of a lease that nobody has renewed (guard: its end is still $2; version 1: not ended).
update session set expires_at = $3 where id = $1 and expires_at = $2 and $3 < $2 and ver = 1
