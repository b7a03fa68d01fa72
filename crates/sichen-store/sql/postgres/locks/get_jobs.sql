-- get_jobs: jobs, deleted or not, that stand still behind their gates (pass_gates) or under their locks.
select j.* from job j where uid = any($1::uuid[])
