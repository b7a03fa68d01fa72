-- count_held: shards that session $1 (of pool $2) holds.
select count(*) from shard where pool = $2 and live and session_id is not null and session_id = $1
