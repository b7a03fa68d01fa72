-- Calendars, their versions, which never change, and the versions that jobs go by.
create table calendar (
  namespace text not null,
  name text not null,
  version integer not null check (version > 0),  -- raised by each change, a deletion too
  deleted integer not null check (deleted in (0, 1)),
  document text not null,                        -- of this version, again in calendar_version
  changed_at integer not null,
  primary key (namespace, name)
) strict, without rowid;

create table calendar_version (
  namespace text not null,
  name text not null,
  version integer not null check (version > 0),
  document text not null,
  changed_at integer not null,
  primary key (namespace, name, version)
) strict, without rowid;

create table calendar_use (               -- by the present revisions of live jobs
  job_uid blob not null references job (uid),
  namespace text not null,
  name text not null,
  version integer not null check (version > 0),
  primary key (job_uid, namespace, name)
) strict, without rowid;
create index calendar_use_job on calendar_use (namespace, name, job_uid);
create index calendar_use_version on calendar_use (namespace, name, version);

-- Events of calendars: the list of entities is in a check, which only a new table can have.
create table event_more (
  seq integer primary key,
  entity text not null check (
    entity in ('job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill')
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
