-- reopen_run: an explicit retry of ?3 failed and ?4 cancelled shards, in the lane ?5 and its queue ?6 (guard: state ?2, no success or cancel).
update run set state = 'running', round = round + 1, ver = ver + 1, stop_cause = null, stopped_at = null, stop_detail = '',
  deadline = null, start_by = null, ended_at = null, reason = '', failures = 0, open = open + ?3 + ?4, failed = failed - ?3,
  cancelled = cancelled - ?4, backfill = ?5, queue = ?6
where id = ?1 and state = ?2 and state in ('failed', 'partial')
