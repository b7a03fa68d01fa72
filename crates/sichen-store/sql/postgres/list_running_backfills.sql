-- list_running_backfills: running backfills of the partitions $1 after id $2, in order.
select b.* from backfill b
where state = 'running' and id > $2 and partition = any($1::bigint[]) order by id limit $3
