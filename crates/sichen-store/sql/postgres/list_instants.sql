-- list_instants: of instants $2 of a job, in their order: the first run, the newest rerun, the record of skipped instants
-- that may hold it, and whether a run of it was removed. Each look has a limit, which keeps it from being made for all
-- instants at once over all of the job's rows.
select i.at, r.id, r.state, r.round, n.id, n.state, n.round, n.rerun, d.from_at, d.reason,
  coalesce((select true from decision x where x.job_uid = $1 and x.to_at = i.at and x.reason = 'removed' limit 1), false)
from unnest($2::bigint[]) with ordinality i (at, n)
left join lateral (select x.id, x.state, x.round from run x
  where x.job_uid = $1 and x.occasion = 'p/' || i.at || '/0' limit 1) r on true
left join lateral (select x.id, x.state, x.round, x.rerun from run x
  where x.job_uid = $1 and x.rerun_of is not null and x.rerun_of = i.at order by x.rerun desc limit 1) n on true
left join lateral (select x.from_at, x.reason from decision x
  where x.job_uid = $1 and x.to_at >= i.at and x.reason <> 'removed' and x.reason <> 'gap'
  order by x.to_at, x.from_at, x.id limit 1) d on true
order by i.n
