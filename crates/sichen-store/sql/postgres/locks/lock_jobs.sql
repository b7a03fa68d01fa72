-- lock_jobs: jobs, deleted or not.
select j.* from job j where uid = any($1::uuid[]) order by uid for no key update
