-- list_running_backfills: backfills of the partitions $1 that go on, after id $2, in order. The range
-- has an end, so that the order of the index is kept on a plan made while the table is empty.
select b.* from backfill b
where (state = 'running' or checks_open > 0 or (checks_due > 0 and state = 'finished'))
  and id > $2 and id <= 9223372036854775807 and partition = any($1::bigint[]) order by id limit $3
