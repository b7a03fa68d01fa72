-- count_load: jobs by the part of length ?2 after ?1 in which their next instant lies, up to ?3; of the
-- first ?4.
select (next_due - ?1) / ?2 as part, count(*) from (
  select next_due from job
  where next_due is not null and paused = 0 and deleted_at is null and next_due > ?1 and next_due <= ?3
  order by next_due limit ?4
) group by part order by part
