-- count_late_jobs: jobs whose next instant is not after $1, up to $2.
select count(*) from (
  select 1 from job
  where next_due is not null and not paused and deleted_at is null and next_due <= $1
  order by next_due limit $2
) j
