-- stop_waiting_shards: cancel the shards of run $1 (of pool $3, at $4, $5) that wait for a grant.
update shard set state = 'cancelled', ended_at = $2, ver = ver + 1
where run_id = $1 and no = any(array(
    select no from shard
    where pool = $3 and not later and queue = $4 and turn = $5 and run_id = $1 and live and session_id is null
    union all
    select no from shard
    where pool = $3 and later and queue = $4 and turn = $5 and run_id = $1 and live and session_id is null))
  and session_id is null and state in ('scheduled', 'retry')
