-- release_shards: the shards of run $1 (of pool $3, at $4, $5), which waited, may be granted from $2 on, later than
-- now or not ($6).
update shard set ready_at = $2, later = $6
where run_id = $1 and no = any(array(
    select no from shard
    where pool = $3 and not later and queue = $4 and turn = $5 and run_id = $1 and live and session_id is null
    union all
    select no from shard
    where pool = $3 and later and queue = $4 and turn = $5 and run_id = $1 and live and session_id is null))
  and session_id is null
