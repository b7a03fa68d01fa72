-- list_runs_by_job_and_state: runs of job $3 in state $4 before id $1, newest first. Said as a range of
-- (job, state, id), so that its index alone gives the order.
select r.* from run r
where (job_uid, state, id) < ($3, $4, $1) and (job_uid, state) >= ($3, $4) and id > 0
order by job_uid desc, state desc, id desc limit $2
