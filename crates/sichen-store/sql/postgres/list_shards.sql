-- list_shards: shards of a run after number $2.
select s.* from shard s where run_id = $1 and no > $2 order by no limit $3
