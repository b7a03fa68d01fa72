-- get_next_deadline: the deadline, not before the clock $1, that passes next in the partitions $2. The range has an end,
-- so that the order of the index is kept on a plan made while the table is empty.
select deadline from run
where live and deadline is not null and ended_at is null and stop_cause is null
  and deadline between (select sichen_now($1::bigint[])) and 9223372036854775807 and partition = any($2::bigint[])
order by deadline limit 1
