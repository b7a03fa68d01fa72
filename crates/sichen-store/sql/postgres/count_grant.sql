-- count_grant: take the next grant number of a session.
update session set grant_seq = grant_seq + 1 where id = $1
