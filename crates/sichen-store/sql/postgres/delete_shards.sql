-- delete_shards: remove the shards of a run.
delete from shard where run_id = $1
