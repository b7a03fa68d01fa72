-- count_held: shards that a session holds.
select count(*) from shard where session_id = $1
