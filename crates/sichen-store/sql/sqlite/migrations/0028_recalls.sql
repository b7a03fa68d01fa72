-- Running shards that were asked to give their slots up.
create table recall (
  run_id integer not null,
  no integer not null,
  token integer not null,                -- of the attempt that was asked
  by_run integer not null,               -- the run for which it was
  priority integer not null,             -- of that run
  at integer not null,
  primary key (run_id, no, token)
) strict, without rowid;
create index recall_by on recall (by_run, run_id, no, token);
