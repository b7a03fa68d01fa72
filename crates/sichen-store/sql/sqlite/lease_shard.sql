-- lease_shard: give a waiting shard to session ?4 (guard: token ?3); token, counts and version are the caller's.
update shard set state = 'running', session_id = ?4, token = ?5, attempt = ?6, used = ?7, takeovers = ?8,
  grant_seq = ?9, timeout_at = ?10, started_at = ?11, ver = ?12, attempt_until = ?13, stall_us = ?14, digest = ''
where run_id = ?1 and no = ?2 and token = ?3 and state in ('scheduled', 'retry')
