-- list_instants: of instants ?2 (JSON array) of a job, in their order: the first run, the newest rerun, the record of
-- skipped instants that may hold it, and whether a run of it was removed.
select json_each.value, r.id, r.state, r.round, n.id, n.state, n.round, n.rerun, d.from_at, d.reason,
  exists (select 1 from decision x where x.job_uid = ?1 and x.to_at = json_each.value and x.reason = 'removed')
from json_each(?2)
left join run r on r.job_uid = ?1 and r.occasion = 'p/' || json_each.value || '/0'
left join run n on n.id = (select x.id from run x
  where x.job_uid = ?1 and x.rerun_of is not null and x.rerun_of = json_each.value order by x.rerun desc limit 1)
left join decision d on d.id = (select x.id from decision x
  where x.job_uid = ?1 and x.to_at >= json_each.value and x.reason <> 'removed' and x.reason <> 'gap' order by x.to_at, x.from_at, x.id limit 1)
order by json_each.key
