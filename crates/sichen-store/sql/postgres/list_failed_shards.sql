-- list_failed_shards: the shards of a run that an explicit retry may reopen.
select no, state, ver, token from shard where run_id = $1 and state in ('failed', 'cancelled') order by no
