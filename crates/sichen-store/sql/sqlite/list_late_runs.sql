-- list_late_runs: open runs of the partitions ?2 (JSON array) that are past their deadline at ?1.
select id, partition from run
where deadline is not null and ended_at is null and stop_cause is null
  and deadline < ?1 and partition in (select value from json_each(?2))
order by deadline limit ?3
