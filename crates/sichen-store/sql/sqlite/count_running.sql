-- count_running: shards of a run that are held. The index is named, since the planner takes the
-- primary key for as good, which would walk all shards of the run.
select count(*) from shard indexed by shard_run_held where run_id = ?1 and session_id is not null
