-- list_late_runs: open runs of the partitions $2 that are past their deadline at the clock $1.
select id, partition from run
where live and deadline is not null and ended_at is null and stop_cause is null
  and deadline < (select sichen_now($1::bigint[])) and partition = any($2::bigint[])
order by deadline limit $3
