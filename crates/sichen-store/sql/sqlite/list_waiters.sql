-- list_waiters: open runs that use capacity ?1 and have shards that are ready at ?2, with the first of those; the
-- index has only open runs that use any.
-- scans: r
select r.id, r.namespace, r.job_name, r.pool, json_each.value, (
  select min(ready_at) from shard s where s.run_id = r.id and s.state in ('scheduled', 'retry') and s.ready_at <= ?2)
from run r join json_each(r.uses) on json_each.key = ?1
where r.ended_at is null and r.uses is not null
  and exists (select 1 from shard s where s.run_id = r.id and s.state in ('scheduled', 'retry') and s.ready_at <= ?2)
order by r.id limit ?3
