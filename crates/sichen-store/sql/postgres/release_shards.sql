-- release_shards: the shards of run $1 (of pool $3, at $4, $5), which waited, may be granted from $2 on.
update shard set ready_at = $2
where pool = $3 and queue = $4 and turn = $5 and run_id = $1 and live and session_id is null
