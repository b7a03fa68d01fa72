-- end_attempt: end the running attempt as the rules decided (guard: token ?3).
update shard set state = ?4, token = ?5, used = ?6, ready_at = ?7, digest = ?8, done = ?9, expected = ?10,
  rate_milli = ?11, waiting_on = ?12, failure_code = ?13, failure_message = ?14, ended_at = ?15, last_end = ?16,
  session_id = null, timeout_at = null, attempt_until = null, stall_us = null, ver = ver + 1
where run_id = ?1 and no = ?2 and token = ?3 and state = 'running'
