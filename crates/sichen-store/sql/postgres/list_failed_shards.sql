-- list_failed_shards: the shards of a run that an explicit retry may reopen, or that may be discarded.
select no, state, ver, token, discarded_at from shard where run_id = $1 and state in ('failed', 'cancelled') order by no
