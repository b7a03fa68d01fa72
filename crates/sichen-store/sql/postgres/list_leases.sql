-- list_leases: shards that a session holds.
select s.* from shard s where session_id = $1 order by run_id, no
