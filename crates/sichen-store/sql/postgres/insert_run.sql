-- insert_run: runs of occasions that have none (unique: job, occasion).
insert into run (id, job_uid, namespace, job_name, occasion, revision, period_start, period_end, pool, handler,
  rank, parallelism, parameters, counts_must_match, deadline, state, round, ver, total, open, succeeded, failed,
  cancelled, reason, digest, created_at, started_at, ended_at, partition, nominal, waits, waits_most, ready_at,
  start_by, backfill, rerun_of, rerun)
select i.id, i.job_uid, i.namespace, i.job_name, i.occasion, i.revision, i.period_start, i.period_end, i.pool,
  i.handler, i.rank, i.parallelism, i.parameters, i.counts_must_match, i.deadline, i.state, 1, 1, i.total, i.open, 0,
  0, 0, '', i.digest, i.created_at, i.started_at, i.ended_at, i.partition, i.nominal, i.waits, i.waits_most,
  i.ready_at, i.start_by, i.backfill, i.rerun_of, i.rerun
from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
  $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::boolean[], $15::bigint[], $16::text[],
  $17::bigint[], $18::bigint[], $19::text[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::text[],
  $25::text[], $26::bigint[], $27::bigint[], $28::bigint[], $29::bigint[],
  $30::bigint[], $31::bigint[])
  i (id, job_uid, namespace, job_name, occasion, revision, period_start, period_end, pool, handler, rank, parallelism,
    parameters, counts_must_match, deadline, state, total, open, digest, created_at, started_at, ended_at, partition,
    nominal, waits, waits_most, ready_at, start_by, backfill, rerun_of, rerun)
