-- count_running: shards of a run that are held.
select count(*) from shard where run_id = $1 and session_id is not null
