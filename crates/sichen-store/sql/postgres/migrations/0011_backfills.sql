-- Backfills: runs requested for a past range, in a lane of their own.

create table backfill (
  id bigint primary key check (id > 0),
  job_uid uuid not null references job (uid),
  key text not null,
  actor text not null,
  from_at bigint not null,
  to_at bigint not null check (to_at > from_at),
  mode text not null check (mode in ('only_missing', 'only_failed', 'all')),
  ordering text not null check (ordering in ('oldest', 'newest')),
  parallelism bigint not null check (parallelism > 0),
  rate bigint check (rate > 0),
  reason text not null,
  ver bigint not null check (ver > 0),
  state text not null check (state in ('running', 'paused', 'finished', 'cancelled')),
  settled bigint not null,               -- all before it is done
  cursor_at bigint not null check (cursor_at >= settled),
  top bigint not null check (top >= cursor_at),    -- as is all from the cursor to here
  next_at bigint,
  created bigint not null default 0 check (created >= 0),
  filled bigint not null default 0 check (filled between 0 and created),
  reopened bigint not null default 0 check (reopened >= 0),
  reruns bigint not null default 0 check (reruns >= 0),
  left_alone bigint not null default 0 check (left_alone >= 0),
  open bigint not null default 0 check (open >= 0),
  succeeded bigint not null default 0 check (succeeded >= 0),
  failed bigint not null default 0 check (failed >= 0),
  cancelled bigint not null default 0 check (cancelled >= 0),
  created_at bigint not null,
  ended_at bigint,
  cause text not null default '',
  partition smallint not null check (partition between 0 and 63),
  unique (job_uid, key),
  check ((state in ('finished', 'cancelled')) = (ended_at is not null))
);
-- Its condition always holds; it keeps the look for a key from taking this index.
create index backfill_job on backfill (job_uid, id) where id > 0;
create index backfill_open on backfill (job_uid) where ended_at is null;
create index backfill_running on backfill (id) where state = 'running';

-- In whose lane a run is; and of a rerun, of which instant it is one, and its number.
alter table run add column backfill bigint references backfill (id);
alter table run add column rerun_of bigint;
alter table run add column rerun bigint check ((rerun is null) = (rerun_of is null));
create index run_backfill on run (backfill, id) where backfill is not null;
create index run_rerun on run (job_uid, rerun_of, rerun) where rerun_of is not null;
-- Overlap is judged by the others alone.
drop index run_open;
create index run_open on run (job_uid, id) where live and backfill is null;

-- What of a record has run after all, and the run that did so last.
alter table decision add column filled bigint not null default 0 check (filled between 0 and count);
alter table decision add column filled_by bigint check (filled_by is null or filled > 0);
-- Records of skipped instants do not overlap: the first that ends at an instant or later is the one.
create index decision_skip on decision (job_uid, to_at, from_at, id) where reason <> 'removed' and reason <> 'gap';

-- The mark at which a revision began; not known of those from before this migration.
alter table revision add column begun_at bigint;
