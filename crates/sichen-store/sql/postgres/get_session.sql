-- get_session: one session, ended or not.
select s.* from session s where id = $1
