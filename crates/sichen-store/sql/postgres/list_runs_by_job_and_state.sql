-- list_runs_by_job_and_state: runs of job $3 in state $4 before id $1, newest first.
select r.* from run r where job_uid = $3 and state = $4 and id > 0 and id < $1 order by id desc limit $2
