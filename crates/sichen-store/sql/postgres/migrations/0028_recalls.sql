-- Running shards that were asked to give their slots up. The server of before reads and writes none: what it
-- does beside this one is not changed by it.
create table recall (
  run_id bigint not null,
  no bigint not null,
  token bigint not null,                 -- of the attempt that was asked
  by_run bigint not null,                -- the run for which it was
  priority bigint not null,              -- of that run
  at bigint not null,
  primary key (run_id, no, token)
);
create index recall_by on recall (by_run, run_id, no, token);
