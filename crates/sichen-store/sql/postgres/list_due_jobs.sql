-- list_due_jobs: jobs of the partitions $2 whose next instant is not after $1; none while the clock $4 is held, for
-- nothing is due then. Held is what is further ahead than the furthest step that is believed (sichen_now).
-- Differs from sqlite/list_due_jobs.sql in judging the clock itself.
select j.* from job j
where next_due is not null and not paused and deleted_at is null
  and next_due <= $1 and partition = any($2::bigint[])
  and (select coalesce(($4::bigint[])[1], (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    <= sichen_now($4::bigint[]) + ($4::bigint[])[3])
order by next_due, uid limit $3
