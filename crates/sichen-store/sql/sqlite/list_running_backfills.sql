-- list_running_backfills: running backfills of the partitions ?1 (JSON array) after id ?2, in order.
select b.* from backfill b
where state = 'running' and id > ?2 and partition in (select value from json_each(?1)) order by id limit ?3
