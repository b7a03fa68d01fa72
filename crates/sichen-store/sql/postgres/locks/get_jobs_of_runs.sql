-- get_jobs_of_runs: the jobs of runs, which stand still behind their gates (pass_gates_of_runs) or under their locks.
select j.* from job j where uid in (select job_uid from run where id = any($1::bigint[]))
