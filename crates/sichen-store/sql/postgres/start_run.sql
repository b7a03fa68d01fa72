-- start_run: the run's first shard was granted.
update run set state = 'running', started_at = $2, ver = ver + 1 where id = $1 and state = 'scheduled'
