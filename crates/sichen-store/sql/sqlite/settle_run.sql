-- settle_run: the outcome that the rules found for a run of which nothing is open.
update run set state = ?2, reason = ?3, ended_at = ?4, waits = null, waits_most = null, ver = ver + 1
where id = ?1 and open = 0 and ended_at is null
