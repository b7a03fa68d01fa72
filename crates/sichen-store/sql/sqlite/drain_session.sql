-- drain_session: a session takes no new work.
update session set draining = 1 where id = ?1
