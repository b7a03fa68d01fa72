-- list_unstarted_runs: runs of the partitions ?2 (JSON array) that have not started by their latest start at ?1.
select id, partition from run
where start_by is not null and started_at is null and ended_at is null and stop_cause is null
  and start_by < ?1 and partition in (select value from json_each(?2))
order by start_by limit ?3
