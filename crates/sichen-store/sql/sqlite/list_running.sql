-- list_running: shards of run ?1 that a session holds.
select s.* from shard s where run_id = ?1 and session_id is not null order by no + 0 limit ?2
