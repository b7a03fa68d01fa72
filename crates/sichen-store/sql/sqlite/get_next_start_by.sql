-- get_next_start_by: the latest start, not before ?1, that passes next in the partitions ?2 (JSON array).
select start_by from run
where start_by is not null and started_at is null and ended_at is null and stop_cause is null
  and start_by >= ?1 and partition in (select value from json_each(?2))
order by start_by limit 1
