-- get_next_deadline: the deadline, not before ?1, that passes next in the partitions ?2 (JSON array).
select deadline from run
where deadline is not null and ended_at is null and stop_cause is null
  and deadline >= ?1 and partition in (select value from json_each(?2))
order by deadline limit 1
