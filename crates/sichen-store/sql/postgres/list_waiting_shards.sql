-- list_waiting_shards: the shards of a run that wait for a grant.
select no, state, ver, token from shard where run_id = $1 and live and state in ('scheduled', 'retry') order by no
