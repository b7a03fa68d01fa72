-- list_ready_shards: the first shards of run $1 (of pool $4 and rank $5) that are ready at $2.
select no, token from shard
where pool = $4 and rank = $5 and run_id = $1 and live and session_id is null and ready_at <= $2
order by ready_at, no limit $3
