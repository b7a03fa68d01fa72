-- lock_sessions: sessions, ended or not.
select s.* from session s where id = any($1::bigint[]) order by id for no key update
