-- People who may log in, each with the browsers in which he is: a document, for all of it is read and written as one.
-- (`user` is a word of SQL.) Servers of the version before know nobody of them, and believe no cookie.
create table account (
  name text not null primary key check (length(name) <= 63),
  document text not null
) strict, without rowid;

-- Events of users: the list of entities is in a check, which only a new table can have.
create table event_more (
  seq integer primary key,
  entity text not null check (
    entity in (
      'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token', 'capacity',
      'namespace', 'user'
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
