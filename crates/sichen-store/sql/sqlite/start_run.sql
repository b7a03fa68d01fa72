-- start_run: the run's first shard was granted; ?3 is the deadline from now on.
update run set state = 'running', started_at = ?2, deadline = ?3, ver = ver + 1 where id = ?1 and state = 'scheduled'
