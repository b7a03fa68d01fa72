-- list_running_backfills: backfills of the partitions $1 that go on, after id $2, in order.
select b.* from backfill b
where (state = 'running' or checks_open > 0 or (checks_due > 0 and state = 'finished'))
  and id > $2 and partition = any($1::bigint[]) order by id limit $3
