-- get_job: a job by uid, deleted or not.
select j.* from job j where uid = $1
