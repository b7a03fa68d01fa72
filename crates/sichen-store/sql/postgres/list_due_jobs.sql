-- list_due_jobs: jobs of the partitions $2 whose next instant is not after $1.
select j.* from job j
where next_due is not null and not paused and deleted_at is null
  and next_due <= $1 and partition = any($2::bigint[])
order by next_due, uid limit $3
