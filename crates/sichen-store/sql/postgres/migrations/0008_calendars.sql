-- Calendars, their versions, which never change, and the versions that jobs go by.
create table calendar (
  namespace text collate "C" not null,
  name text collate "C" not null,
  version bigint not null check (version > 0),  -- raised by each change, a deletion too
  deleted boolean not null,
  document text not null,                        -- of this version, again in calendar_version
  changed_at bigint not null,
  primary key (namespace, name)
);

create table calendar_version (
  namespace text collate "C" not null,
  name text collate "C" not null,
  version bigint not null check (version > 0),
  document text not null,
  changed_at bigint not null,
  primary key (namespace, name, version)
);

create table calendar_use (               -- by the present revisions of live jobs
  job_uid uuid not null references job (uid),
  namespace text collate "C" not null,
  name text collate "C" not null,
  version bigint not null check (version > 0),
  primary key (job_uid, namespace, name)
);
create index calendar_use_job on calendar_use (namespace, name, job_uid);
create index calendar_use_version on calendar_use (namespace, name, version);

alter table event drop constraint event_entity_check;
alter table event add constraint event_entity_check check (
  entity in ('job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill')
) not valid;
alter table event validate constraint event_entity_check;
