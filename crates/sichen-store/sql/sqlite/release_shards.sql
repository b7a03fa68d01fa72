-- release_shards: the shards of a run that waited may be granted from ?2 on.
update shard set ready_at = ?2 where run_id = ?1 and state in ('scheduled', 'retry')
