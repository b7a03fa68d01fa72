-- list_unstarted_runs: runs of the partitions $2 that have not started by their latest start at the clock $1.
select id, partition from run
where live and start_by is not null and started_at is null and stop_cause is null
  and start_by < (select sichen_now($1::bigint[])) and partition = any($2::bigint[])
order by start_by limit $3
