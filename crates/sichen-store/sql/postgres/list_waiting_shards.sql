-- list_waiting_shards: the shards of run $1 (of pool $2, at $3, $4) that wait for a grant.
select no, state, ver, token from shard
where pool = $2 and not later and queue = $3 and turn = $4 and run_id = $1 and live and session_id is null
union all
select no, state, ver, token from shard
where pool = $2 and later and queue = $3 and turn = $4 and run_id = $1 and live and session_id is null
order by no
