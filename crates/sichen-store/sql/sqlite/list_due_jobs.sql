-- list_due_jobs: jobs of the partitions ?2 (JSON array) whose next instant is not after ?1.
select j.* from job j
where next_due is not null and paused = 0 and deleted_at is null
  and next_due <= ?1 and partition in (select value from json_each(?2))
order by next_due, uid limit ?3
