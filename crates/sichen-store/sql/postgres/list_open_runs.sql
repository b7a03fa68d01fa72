-- list_open_runs: runs of job $3 before id $1 that are not closed and of no backfill, newest first.
select r.* from run r where job_uid = $3 and live and backfill is null and id < $1 order by id desc limit $2
