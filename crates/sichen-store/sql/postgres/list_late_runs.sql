-- list_late_runs: open runs of the partitions $2 that are past their deadline, or their latest start, at the clock
-- $1, at most $3 of each; and, in rows without a run, the deadline and the latest start that pass next. Those ranges
-- have two ends, so that the order of the index is kept on a plan made while the table is empty.
(select id, partition, null::bigint as next from run
where live and deadline is not null and ended_at is null and stop_cause is null
  and deadline >= -9223372036854775807 and deadline < (select sichen_now($1::bigint[])) and partition = any($2::bigint[])
order by deadline limit $3)
union all
(select id, partition, null from run
where live and start_by is not null and started_at is null and stop_cause is null
  and start_by >= -9223372036854775807 and start_by < (select sichen_now($1::bigint[])) and partition = any($2::bigint[])
order by start_by limit $3)
union all
(select null, null, deadline from run
where live and deadline is not null and ended_at is null and stop_cause is null
  and deadline between (select sichen_now($1::bigint[])) and 9223372036854775807 and partition = any($2::bigint[])
order by deadline limit 1)
union all
(select null, null, start_by from run
where live and start_by is not null and started_at is null and stop_cause is null
  and start_by between (select sichen_now($1::bigint[])) and 9223372036854775807 and partition = any($2::bigint[])
order by start_by limit 1)
