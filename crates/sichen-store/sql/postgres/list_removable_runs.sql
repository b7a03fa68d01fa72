-- list_removable_runs: closed runs that ended before $1, oldest first.
select id, job_uid, occasion, state from run where ended_at is not null and ended_at < $1
order by ended_at, id limit $2
