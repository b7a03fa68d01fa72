-- start_run: the first shard of each of these runs was granted.
update run r set state = 'running', started_at = i.started_at, ver = r.ver + 1
from unnest($1::bigint[], $2::bigint[]) i (id, started_at)
where r.id = i.id and r.state = 'scheduled'
