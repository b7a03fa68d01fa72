-- lock_sessions_of_worker: live sessions of the worker uid $1.
select s.* from session s where worker_uid = $1 and ended_at is null order by id for no key update
