-- lock_counted_jobs: the jobs $1, and those of $2 whose rows count their runs.
select j.* from job j where uid = any($1::uuid[] || $2::uuid[]) and (counting <> 'never' or uid = any($1::uuid[]))
order by uid for no key update
