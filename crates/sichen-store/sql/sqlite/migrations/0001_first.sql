-- The first schema. Instants are whole microseconds since 1970 (UTC); 64-bit ids, tokens and terms
-- stay below 2^63. Rows are read by position (select t.*), so a later migration only appends columns.

create table meta (
  id integer primary key check (id = 1),
  store_epoch integer not null check (store_epoch between 0 and 2147483647),
  clock_mark integer not null,           -- no transaction has used a later instant
  last_id integer not null check (last_id >= 0),
  last_event integer not null check (last_event >= 0)
) strict;
insert into meta values (1, 0, -377705023201000000, 0, 0);

create table op (
  n integer primary key,
  id blob not null unique check (length(id) = 16),
  at integer not null,
  actor text not null,
  result integer                         -- the id that a registration gave out
) strict;

create table node (
  id integer primary key check (id > 0),
  address text not null,
  expires_at integer not null
) strict;

create table duty (
  key text primary key,
  term integer not null check (term > 0),
  node_id integer,                       -- null: released
  ver integer not null check (ver > 0)
) strict, without rowid;

create table job (
  uid blob primary key check (length(uid) = 16),
  namespace text not null,
  name text not null,
  revision integer not null check (revision > 0),
  ver integer not null check (ver >= revision),
  document text not null,
  paused integer not null check (paused in (0, 1)),
  high_water integer not null,
  next_due integer,
  active_runs integer not null check (active_runs >= 0),
  created_at integer not null,
  deleted_at integer,
  partition integer not null check (partition between 0 and 63)
) strict, without rowid;
create unique index job_live_name on job (namespace, name) where deleted_at is null;
create index job_due on job (next_due, uid)
  where next_due is not null and paused = 0 and deleted_at is null;

create table revision (
  job_uid blob not null references job (uid),
  revision integer not null check (revision > 0),
  document text not null,
  primary key (job_uid, revision)
) strict, without rowid;

create table decision (
  id integer primary key,
  job_uid blob not null references job (uid),
  from_at integer not null,
  to_at integer not null check (to_at >= from_at),
  count integer not null check (count >= 0),
  reason text not null,
  reference text not null
) strict;
create index decision_job on decision (job_uid, to_at);

create table session (
  id integer primary key check (id > 0),
  ver integer not null check (ver in (1, 2)),
  worker_name text not null,
  worker_uid text not null,
  boot_id text not null,
  incarnation text not null,
  pool text not null,
  slots integer not null check (slots >= 0),
  handlers text not null,                -- a JSON array of texts
  draining integer not null check (draining in (0, 1)),
  grant_seq integer not null check (grant_seq >= 0),
  registered_at integer not null,
  expires_at integer not null,           -- changed by each beat, so in no index
  ended_at integer,
  ended_cause text,
  check ((ended_at is null) = (ended_cause is null)),
  check ((ver = 2) = (ended_at is not null))
) strict;
create index session_live_pool on session (pool, id) where ended_at is null;
create index session_live_name on session (worker_name, id) where ended_at is null;
create index session_live_uid on session (worker_uid, id) where ended_at is null;

create table run (
  id integer primary key check (id > 0),
  job_uid blob not null references job (uid),
  namespace text not null,
  job_name text not null,
  occasion text not null,
  revision integer not null check (revision > 0),
  period_start integer,
  period_end integer,
  pool text not null,
  handler text not null,
  rank integer not null,                 -- the priority negated, so that (rank, id) rises
  parallelism integer not null,
  parameters text not null,
  counts_must_match integer not null check (counts_must_match in (0, 1)),
  deadline integer,
  state text not null
    check (state in ('scheduled', 'running', 'succeeded', 'partial', 'failed', 'cancelled')),
  round integer not null check (round > 0),
  ver integer not null check (ver >= round),
  total integer not null check (total between 0 and 100000),
  open integer not null check (open >= 0),
  succeeded integer not null check (succeeded >= 0),
  failed integer not null check (failed >= 0),
  cancelled integer not null check (cancelled >= 0),
  stop_cause text check (stop_cause in ('cancel', 'deadline', 'fatal')),
  stopped_at integer,
  reason text not null,
  digest text not null,
  created_at integer not null,
  started_at integer,
  ended_at integer,
  partition integer not null check (partition between 0 and 63),
  unique (job_uid, occasion),
  check ((period_start is null) = (period_end is null)),
  check ((stop_cause is null) = (stopped_at is null)),
  check ((state in ('scheduled', 'running')) = (ended_at is null)),
  check (ended_at is null or open = 0),
  -- The plan step is one more until it has succeeded.
  check (open + succeeded + failed + cancelled between total and total + 1)
) strict;
create index run_job on run (job_uid, id);
create index run_state on run (state, id);
create index run_grantable on run (pool, rank, id) where ended_at is null and stop_cause is null;
create index run_deadline on run (deadline)
  where deadline is not null and ended_at is null and stop_cause is null;
create index run_complete on run (id) where open = 0 and ended_at is null;
create index run_ended on run (ended_at, id) where ended_at is not null;

create table shard (
  run_id integer not null references run (id),
  no integer not null check (no >= -1),
  pool text not null,
  descriptor text not null,              -- JSON
  state text not null
    check (state in ('scheduled', 'running', 'retry', 'succeeded', 'failed', 'cancelled')),
  ver integer not null check (ver > 0),
  token integer not null check (token >= 0),
  attempt integer not null check (attempt >= 0),
  used integer not null check (used between 0 and attempt),
  takeovers integer not null check (takeovers >= 0),
  ready_at integer not null,
  session_id integer,
  grant_seq integer not null check (grant_seq >= 0),
  timeout_at integer,
  digest text not null,
  checkpoint_seq integer not null check (checkpoint_seq >= 0),
  checkpoint text not null,
  done integer not null check (done >= 0),
  expected integer check (expected >= 0),
  rate_milli integer not null check (rate_milli >= 0),
  waiting_on text not null,
  failure_code text,
  failure_message text,
  started_at integer,
  ended_at integer,
  last_end text,
  primary key (run_id, no),
  check ((state = 'running') = (session_id is not null)),
  check (state = 'running' or timeout_at is null),
  check ((state in ('succeeded', 'failed', 'cancelled')) = (ended_at is not null)),
  check ((failure_code is null) = (failure_message is null)),
  check (token > 0 or attempt = 0)
) strict, without rowid;
create index shard_waiting on shard (run_id, ready_at, no) where state in ('scheduled', 'retry');
create index shard_pool_waiting on shard (pool, ready_at) where state in ('scheduled', 'retry');
create index shard_held on shard (session_id) where session_id is not null;
create index shard_run_held on shard (run_id) where session_id is not null;
create index shard_pool_held on shard (pool, session_id) where session_id is not null;
create index shard_timeout on shard (pool, timeout_at) where timeout_at is not null;

create table event (
  seq integer primary key,
  entity text not null check (entity in ('job', 'run', 'shard', 'session', 'node', 'duty')),
  entity_id text not null,
  run_id integer,                        -- of runs and shards
  ver integer not null check (ver >= 0),
  at integer not null,
  op blob not null check (length(op) = 16),
  actor text not null,
  duty text,
  term integer,
  kind text not null,
  from_state text not null,
  to_state text not null,
  attempt integer,
  token integer,
  cause text not null,
  data text not null,
  check ((duty is null) = (term is null)),
  check ((run_id is not null) = (entity in ('run', 'shard')))
) strict;
create unique index event_ver on event (entity_id, entity, ver) where ver > 0;
create index event_unchanged on event (entity_id, entity) where ver = 0;
create index event_run on event (run_id, seq) where run_id is not null;
