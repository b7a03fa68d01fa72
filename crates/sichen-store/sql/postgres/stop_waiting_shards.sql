-- stop_waiting_shards: cancel the shards of a run that wait for a grant.
update shard set state = 'cancelled', ended_at = $2, ver = ver + 1
where run_id = $1 and live and state in ('scheduled', 'retry')
