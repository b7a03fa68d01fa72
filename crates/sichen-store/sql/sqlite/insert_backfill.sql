-- insert_backfill: a backfill that somebody asked for (unique: job, key).
insert into backfill (id, job_uid, key, actor, from_at, to_at, mode, ordering, parallelism, rate, reason, ver, state,
  settled, cursor_at, top, created_at, partition, verify_job, verify_rate)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, 'running', ?5, ?5, ?5, ?12, ?13, ?14, ?15)
