-- list_leases: shards that session $1 (of pool $2) holds.
select s.* from shard s
where pool = $2 and live and session_id is not null and session_id = $1 order by run_id, no
