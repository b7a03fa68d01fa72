-- list_runs_by_job: runs of job $3 before id $1, newest first.
select r.* from run r where job_uid = $3 and id > 0 and id < $1 order by id desc limit $2
