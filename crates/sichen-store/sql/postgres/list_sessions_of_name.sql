-- list_sessions_of_name: live sessions of the worker name $1.
select s.* from session s where worker_name = $1 and ended_at is null order by id
