-- list_late_runs: open runs of the partitions ?2 (JSON array) that are past their deadline, or their latest start, at
-- ?1, at most ?3 of each; and, in rows without a run, the deadline and the latest start that pass next.
select * from (select id, partition, null as next from run
where deadline is not null and ended_at is null and stop_cause is null
  and deadline < ?1 and partition in (select value from json_each(?2))
order by deadline limit ?3)
union all
select * from (select id, partition, null from run
where start_by is not null and started_at is null and ended_at is null and stop_cause is null
  and start_by < ?1 and partition in (select value from json_each(?2))
order by start_by limit ?3)
union all
select * from (select null, null, deadline from run
where deadline is not null and ended_at is null and stop_cause is null
  and deadline >= ?1 and partition in (select value from json_each(?2))
order by deadline limit 1)
union all
select * from (select null, null, start_by from run
where start_by is not null and started_at is null and ended_at is null and stop_cause is null
  and start_by >= ?1 and partition in (select value from json_each(?2))
order by start_by limit 1)
