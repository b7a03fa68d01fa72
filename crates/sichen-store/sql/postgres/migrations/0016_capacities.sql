-- Capacities, what jobs use of them, and what attempts hold.
create table capacity (
  name text collate "C" primary key,
  ver bigint not null check (ver > 0),   -- raised by each change, a deletion too
  deleted boolean not null,
  document text not null,
  changed_at bigint not null,
  units bigint check (units >= 0),
  rate_count bigint check (rate_count > 0),
  rate_us bigint check (rate_us > 0),
  burst bigint check (burst > 0),
  level bigint not null check (level >= 0),  -- of the bucket: tokens times rate_us
  filled_at bigint not null,                 -- when it was so
  check ((rate_count is null) = (rate_us is null)),
  check ((rate_count is null) = (burst is null)),
  check (level <= coalesce(burst * rate_us, 0))
) with (fillfactor = 50);

create table capacity_use (               -- by the present revisions of live jobs
  job_uid uuid not null references job (uid),
  name text collate "C" not null references capacity (name),
  units bigint not null check (units > 0),
  primary key (job_uid, name)
);
create index capacity_use_job on capacity_use (name, job_uid);

create table hold (
  run_id bigint not null,
  no bigint not null,
  token bigint not null,                 -- of the attempt that holds it
  capacity text collate "C" not null,
  units bigint not null check (units > 0),
  session_id bigint not null,
  since bigint not null,
  until bigint,                          -- null while the attempt runs; from then on it counts no more
  primary key (run_id, no, token, capacity)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index hold_capacity on hold (capacity, since);
create index hold_until on hold (capacity, until) where until is not null;

alter table run add column uses text;    -- of capacities, a JSON object; null if none
create index run_uses on run (id) where live and uses is not null;

alter table event drop constraint event_entity_check;
alter table event add constraint event_entity_check check (
  entity in (
    'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token', 'capacity'
  )
) not valid;
alter table event validate constraint event_entity_check;
