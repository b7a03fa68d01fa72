-- list_running: shards of run $1, at $3, $4, that a session holds. The order is no column, or the key's index would
-- be walked over all shards of the run.
select s.* from shard s where queue = $3 and turn = $4 and run_id = $1 and session_id is not null order by no + 0 limit $2
