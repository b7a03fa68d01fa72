-- list_ready_shards: the first shards of run $1 that are ready at $2.
select no, token from shard
where run_id = $1 and live and state in ('scheduled', 'retry') and ready_at <= $2 order by ready_at, no limit $3
