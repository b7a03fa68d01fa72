-- start_run: the first shard of each of these runs was granted; deadlines are those from now on. The guard is
-- hidden from the choice of an index: one over states would be walked for each of them.
update run r set state = 'running', started_at = i.started_at, deadline = i.deadline, ver = r.ver + 1
from (select unnest($1::bigint[]) as id, unnest($2::bigint[]) as started_at, unnest($3::bigint[]) as deadline) i
where r.id = i.id and coalesce(r.state = 'scheduled', false)
