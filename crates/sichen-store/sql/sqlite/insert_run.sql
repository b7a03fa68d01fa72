-- insert_run: a run of an occasion that has none (unique: job, occasion).
insert into run (id, job_uid, namespace, job_name, occasion, revision, period_start, period_end, pool, handler,
  rank, parallelism, parameters, counts_must_match, deadline, state, round, ver, total, open, succeeded, failed,
  cancelled, reason, digest, created_at, started_at, ended_at, partition, nominal, waits, waits_most, ready_at,
  start_by, backfill, rerun_of, rerun, uses, queue, turn)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, 1, 1, ?17, ?18, 0, 0, 0, '', ?19,
  ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34)
