-- lock_jobs_of_runs: the jobs of runs. A run never changes its job.
select j.* from job j where uid in (select job_uid from run where id = any($1::bigint[])) order by uid for no key update
