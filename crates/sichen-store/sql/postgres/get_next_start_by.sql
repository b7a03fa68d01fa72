-- get_next_start_by: the latest start, not before the clock $1, that passes next in the partitions $2. The range has an
-- end, so that the order of the index is kept on a plan made while the table is empty.
select start_by from run
where live and start_by is not null and started_at is null and stop_cause is null
  and start_by between (select sichen_now($1::bigint[])) and 9223372036854775807 and partition = any($2::bigint[])
order by start_by limit 1
