-- Checks of backfills' runs: for each that succeeded, a run of another job counts its business again.

alter table backfill add column verify_job text;         -- in the namespace of its job; null: its runs are not checked
alter table backfill add column verify_rate integer check ((verify_rate is null) = (verify_job is null) and verify_rate > 0);
alter table backfill add column next_check_at integer;
alter table backfill add column checks_due integer not null default 0 check (checks_due >= 0);
alter table backfill add column checks_open integer not null default 0 check (checks_open >= 0);
alter table backfill add column checks_agree integer not null default 0 check (checks_agree >= 0);
alter table backfill add column checks_differ integer not null default 0 check (checks_differ >= 0);
alter table backfill add column checks_uncounted integer not null default 0 check (checks_uncounted >= 0);

-- Those with something to go on with.
drop index backfill_running;
create index backfill_running on backfill (id)
  where (state = 'running' or checks_open > 0 or (checks_due > 0 and state = 'finished'));

create table backfill_check (
  run_id integer not null,
  round integer not null check (round > 0),
  backfill integer not null references backfill (id),
  state text not null check (state in ('due', 'open', 'agrees', 'differs', 'uncounted')),
  by_run integer,                           -- the run that counts
  found integer check (found >= 0),
  expected integer check (expected >= 0),
  why text not null default '',
  at integer not null,
  primary key (run_id, round),
  check ((found is null) = (expected is null)),
  check ((found is not null) = (state in ('agrees', 'differs'))),
  check (state <> 'agrees' or found = expected),
  check (state <> 'differs' or found <> expected)
) strict, without rowid;
create index backfill_check_of on backfill_check (backfill, run_id, round);
create index backfill_check_state on backfill_check (backfill, state, run_id, round);
