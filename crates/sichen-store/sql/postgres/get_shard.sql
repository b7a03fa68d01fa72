-- get_shard: one shard.
select s.* from shard s where run_id = $1 and no = $2
