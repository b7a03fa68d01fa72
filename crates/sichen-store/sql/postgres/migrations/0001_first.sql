-- The first schema. Instants are whole microseconds since 1970 (UTC); 64-bit ids, tokens and terms
-- stay below 2^63. Rows are read by position (select t.*), so a later migration only appends columns.
-- Partial indexes ask for `live`, not for a state, so that a change of state within the open ones need
-- not touch them. What beats change is in no index.

create table meta (
  id bigint primary key check (id = 1),
  store_epoch bigint not null check (store_epoch between 0 and 2147483647),
  clock_mark bigint not null             -- at most a second behind the latest instant used
);
insert into meta values (1, 0, -377705023201000000);
create sequence entity_id;                -- of nodes, sessions and runs
create sequence event_seq;

-- The one clock: whatever happens to the server's, it is never behind the mark.
create function sichen_now() returns bigint language sql volatile as
$$select greatest((extract(epoch from clock_timestamp()) * 1000000)::bigint, clock_mark) from meta where id = 1$$;

create table op (
  n bigint generated always as identity primary key,
  id uuid not null unique,
  at bigint not null,
  actor text not null,
  result bigint                         -- the id that a registration gave out
);

create table node (
  id bigint primary key check (id > 0),
  address text not null,
  expires_at bigint not null
) with (fillfactor = 50);

create table duty (
  key text collate "C" primary key,
  term bigint not null check (term > 0),
  node_id bigint,                       -- null: released
  ver bigint not null check (ver > 0)
) with (fillfactor = 50);

create table job (
  uid uuid primary key,
  namespace text collate "C" not null,
  name text collate "C" not null,
  revision bigint not null check (revision > 0),
  ver bigint not null check (ver >= revision),
  document text not null,
  paused boolean not null,
  high_water bigint not null,
  next_due bigint,
  active_runs bigint not null check (active_runs >= 0),
  created_at bigint not null,
  deleted_at bigint,
  partition smallint not null check (partition between 0 and 63)
);
create unique index job_live_name on job (namespace, name) where deleted_at is null;
create index job_due on job (next_due, uid)
  where next_due is not null and not paused and deleted_at is null;

create table revision (
  job_uid uuid not null references job (uid),
  revision bigint not null check (revision > 0),
  document text not null,
  primary key (job_uid, revision)
);

create table decision (
  id bigint generated always as identity primary key,
  job_uid uuid not null references job (uid),
  from_at bigint not null,
  to_at bigint not null check (to_at >= from_at),
  count bigint not null check (count >= 0),
  reason text not null,
  reference text not null
);
create index decision_job on decision (job_uid, to_at);

create table session (
  id bigint primary key check (id > 0),
  ver bigint not null check (ver in (1, 2)),
  worker_name text collate "C" not null,
  worker_uid text collate "C" not null,
  boot_id text not null,
  incarnation text not null,
  pool text collate "C" not null,
  slots bigint not null check (slots >= 0),
  handlers text not null,                -- a JSON array of texts
  draining boolean not null,
  grant_seq bigint not null check (grant_seq >= 0),
  registered_at bigint not null,
  expires_at bigint not null,           -- changed by each beat, so in no index
  ended_at bigint,
  ended_cause text,
  check ((ended_at is null) = (ended_cause is null)),
  check ((ver = 2) = (ended_at is not null))
) with (fillfactor = 50);
create index session_live_pool on session (pool, id) where ended_at is null;
create index session_live_name on session (worker_name, id) where ended_at is null;
create index session_live_uid on session (worker_uid, id) where ended_at is null;

create table run (
  id bigint primary key check (id > 0),
  job_uid uuid not null references job (uid),
  namespace text collate "C" not null,
  job_name text not null,
  occasion text not null,
  revision bigint not null check (revision > 0),
  period_start bigint,
  period_end bigint,
  pool text collate "C" not null,
  handler text not null,
  rank integer not null,                 -- the priority negated, so that (rank, id) rises
  parallelism bigint not null,
  parameters text not null,
  counts_must_match boolean not null,
  deadline bigint,
  state text collate "C" not null
    check (state in ('scheduled', 'running', 'succeeded', 'partial', 'failed', 'cancelled')),
  round bigint not null check (round > 0),
  ver bigint not null check (ver >= round),
  total bigint not null check (total between 0 and 100000),
  open bigint not null check (open >= 0),
  succeeded bigint not null check (succeeded >= 0),
  failed bigint not null check (failed >= 0),
  cancelled bigint not null check (cancelled >= 0),
  stop_cause text check (stop_cause in ('cancel', 'deadline', 'fatal')),
  stopped_at bigint,
  reason text not null,
  digest text not null,
  created_at bigint not null,
  started_at bigint,
  ended_at bigint,
  partition smallint not null check (partition between 0 and 63),
  unique (job_uid, occasion),
  check ((period_start is null) = (period_end is null)),
  check ((stop_cause is null) = (stopped_at is null)),
  check ((state in ('scheduled', 'running')) = (ended_at is null)),
  check (ended_at is null or open = 0),
  -- The plan step is one more until it has succeeded.
  check (open + succeeded + failed + cancelled between total and total + 1),
  live boolean not null generated always as (ended_at is null) stored
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- Its condition always holds; it keeps the look for an occasion from taking this index while the table
-- is small, and then walking all runs of the job.
create index run_job on run (job_uid, id) where id > 0;
create index run_state on run (state, id);
create index run_grantable on run (pool, rank, id) where live;
create index run_deadline on run (deadline)
  where live and deadline is not null;
create index run_complete on run (id) where live and open = 0;
create index run_ended on run (ended_at, id) where ended_at is not null;

create table shard (
  run_id bigint not null,                -- no reference: its check for 100,000 rows costs more than all else
  no integer not null check (no >= -1),
  pool text collate "C" not null,
  descriptor text not null,              -- JSON
  state text collate "C" not null
    check (state in ('scheduled', 'running', 'retry', 'succeeded', 'failed', 'cancelled')),
  ver bigint not null check (ver > 0),
  token bigint not null check (token >= 0),
  attempt bigint not null check (attempt >= 0),
  used bigint not null check (used between 0 and attempt),
  takeovers bigint not null check (takeovers >= 0),
  ready_at bigint not null,
  session_id bigint,
  grant_seq bigint not null check (grant_seq >= 0),
  timeout_at bigint,
  digest text not null,
  checkpoint_seq bigint not null check (checkpoint_seq >= 0),
  checkpoint text not null,
  done bigint not null check (done >= 0),
  expected bigint check (expected >= 0),
  rate_milli bigint not null check (rate_milli >= 0),
  waiting_on text not null,
  failure_code text,
  failure_message text,
  started_at bigint,
  ended_at bigint,
  last_end text,
  primary key (run_id, no),
  check ((state = 'running') = (session_id is not null)),
  check (state = 'running' or timeout_at is null),
  check ((state in ('succeeded', 'failed', 'cancelled')) = (ended_at is not null)),
  check ((failure_code is null) = (failure_message is null)),
  check (token > 0 or attempt = 0),
  live boolean not null generated always as (ended_at is null) stored
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index shard_waiting on shard (run_id, ready_at, no) where live;
create index shard_pool_waiting on shard (pool, ready_at) where live;
create index shard_held on shard (session_id) where session_id is not null;
create index shard_run_held on shard (run_id) where session_id is not null;
-- Held shards are live; to say so keeps the count of a session's shards from walking this index.
create index shard_pool_held on shard (pool, session_id) where live and session_id is not null;
create index shard_timeout on shard (pool, timeout_at) where timeout_at is not null;

create table event (
  seq bigint primary key,
  entity text not null check (entity in ('job', 'run', 'shard', 'session', 'node', 'duty')),
  entity_id text not null,
  run_id bigint,                        -- of runs and shards
  ver bigint not null check (ver >= 0),
  at bigint not null,
  op uuid not null,
  actor text not null,
  duty text,
  term bigint,
  kind text not null,
  from_state text not null,
  to_state text not null,
  attempt bigint,
  token bigint,
  cause text not null,
  data text not null,
  check ((duty is null) = (term is null)),
  check ((run_id is not null) = (entity in ('run', 'shard')))
);
create unique index event_ver on event (entity_id, entity, ver) where ver > 0;
create index event_unchanged on event (entity_id, entity) where ver = 0;
create index event_run on event (run_id, seq) where run_id is not null;
