-- start_run: the first shard of each of these runs was granted; deadlines are those from now on. The guard is
-- hidden from the choice of an index: one over states would be walked for each of them.
update run r set state = 'running', started_at = i.started_at, deadline = i.deadline, ver = r.ver + 1
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) i (id, started_at, deadline)
where r.id = i.id and coalesce(r.state = 'scheduled', false)
