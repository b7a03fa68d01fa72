-- insert_run: runs of occasions that have none (unique: job, occasion).
insert into run (id, job_uid, namespace, job_name, occasion, revision, period_start, period_end, pool, handler,
  rank, parallelism, parameters, counts_must_match, deadline, state, round, ver, total, open, succeeded, failed,
  cancelled, reason, digest, created_at, started_at, ended_at, partition, nominal, waits, waits_most, ready_at,
  start_by, backfill, rerun_of, rerun, uses)
select i.id, i.job_uid, i.namespace, i.job_name, i.occasion, i.revision, i.period_start, i.period_end, i.pool,
  i.handler, i.rank, i.parallelism, i.parameters, i.counts_must_match, i.deadline, i.state, 1, 1, i.total, i.open, 0,
  0, 0, '', i.digest, i.created_at, i.started_at, i.ended_at, i.partition, i.nominal, i.waits, i.waits_most,
  i.ready_at, i.start_by, i.backfill, i.rerun_of, i.rerun, i.uses
from (select unnest($1::bigint[]) as id, unnest($2::uuid[]) as job_uid, unnest($3::text[]) as namespace,
  unnest($4::text[]) as job_name, unnest($5::text[]) as occasion, unnest($6::bigint[]) as revision,
  unnest($7::bigint[]) as period_start, unnest($8::bigint[]) as period_end, unnest($9::text[]) as pool,
  unnest($10::text[]) as handler, unnest($11::bigint[]) as rank, unnest($12::bigint[]) as parallelism,
  unnest($13::text[]) as parameters, unnest($14::boolean[]) as counts_must_match, unnest($15::bigint[]) as deadline,
  unnest($16::text[]) as state, unnest($17::bigint[]) as total, unnest($18::bigint[]) as open,
  unnest($19::text[]) as digest, unnest($20::bigint[]) as created_at, unnest($21::bigint[]) as started_at,
  unnest($22::bigint[]) as ended_at, unnest($23::bigint[]) as partition, unnest($24::text[]) as nominal,
  unnest($25::text[]) as waits, unnest($26::bigint[]) as waits_most, unnest($27::bigint[]) as ready_at,
  unnest($28::bigint[]) as start_by, unnest($29::bigint[]) as backfill, unnest($30::bigint[]) as rerun_of,
  unnest($31::bigint[]) as rerun, unnest($32::text[]) as uses) i
