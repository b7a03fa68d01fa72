-- Capacities, what jobs use of them, and what attempts hold.
create table capacity (
  name text primary key,
  ver integer not null check (ver > 0),  -- raised by each change, a deletion too
  deleted integer not null check (deleted in (0, 1)),
  document text not null,
  changed_at integer not null,
  units integer check (units >= 0),
  rate_count integer check (rate_count > 0),
  rate_us integer check (rate_us > 0),
  burst integer check (burst > 0),
  level integer not null check (level >= 0),  -- of the bucket: tokens times rate_us
  filled_at integer not null,                 -- when it was so
  check ((rate_count is null) = (rate_us is null)),
  check ((rate_count is null) = (burst is null)),
  check (level <= coalesce(burst * rate_us, 0))
) strict, without rowid;

create table capacity_use (               -- by the present revisions of live jobs
  job_uid blob not null references job (uid),
  name text not null references capacity (name),
  units integer not null check (units > 0),
  primary key (job_uid, name)
) strict, without rowid;
create index capacity_use_job on capacity_use (name, job_uid);

create table hold (
  run_id integer not null,
  no integer not null,
  token integer not null,                -- of the attempt that holds it
  capacity text not null,
  units integer not null check (units > 0),
  session_id integer not null,
  since integer not null,
  until integer,                         -- null while the attempt runs; from then on it counts no more
  primary key (run_id, no, token, capacity)
) strict, without rowid;
create index hold_capacity on hold (capacity, since);
create index hold_until on hold (capacity, until) where until is not null;

alter table run add column uses text;    -- of capacities, a JSON object; null if none
create index run_uses on run (id) where ended_at is null and uses is not null;

-- Events of capacities: the list of entities is in a check, which only a new table can have.
create table event_more (
  seq integer primary key,
  entity text not null check (
    entity in (
      'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token', 'capacity'
    )
  ),
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
insert into event_more select * from event;
drop table event;
alter table event_more rename to event;
create unique index event_ver on event (entity_id, entity, ver) where ver > 0;
create index event_unchanged on event (entity_id, entity) where ver = 0;
create index event_run on event (run_id, seq) where run_id is not null;
