-- discard_shard: a failed shard is struck off the dead letters (guard: row version ?3).
update shard set discarded_at = ?4, ver = ver + 1
where run_id = ?1 and no = ?2 and ver = ?3 and state = 'failed' and discarded_at is null
