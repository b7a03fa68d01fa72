-- list_waiters: open runs that use capacity $1 and have shards that are ready at $2, with the first of those.
-- A person asks: it goes through the shards of each such run by the run.
select r.id, r.namespace, r.job_name, r.pool, (r.uses::jsonb ->> $1::text)::bigint, s.ready_at
from run r cross join lateral (
  select ready_at from shard
  where run_id = r.id and live and session_id is null and ready_at <= $2
  order by ready_at limit 1) s
where r.live and r.uses is not null and r.uses::jsonb ->> $1::text is not null order by r.id limit $3
