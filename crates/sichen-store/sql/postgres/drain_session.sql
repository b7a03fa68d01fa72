-- drain_session: a session takes no new work.
update session set draining = true where id = $1
