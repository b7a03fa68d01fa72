-- list_running: shards of run $1 that a session holds. The order is no column, or the key's index would be
-- walked over all shards of the run.
select s.* from shard s where run_id = $1 and session_id is not null order by no + 0 limit $2
