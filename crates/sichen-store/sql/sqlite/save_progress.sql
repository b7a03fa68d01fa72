-- save_progress: store progress alone, the sign of life in ?8 (guards: token ?3, running).
update shard set done = ?4, expected = ?5, rate_milli = ?6, waiting_on = ?7, timeout_at = ?8
where run_id = ?1 and no = ?2 and token = ?3 and state = 'running'
