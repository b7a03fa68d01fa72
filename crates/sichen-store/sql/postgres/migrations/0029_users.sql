-- People who may log in, each with the browsers in which he is: a document, for all of it is read and written as one.
-- (`user` is a word of SQL.) Servers of the version before know nobody of them, and believe no cookie.
create table account (
  name text collate "C" primary key check (length(name) <= 63),
  document text not null
);

alter table event drop constraint event_entity_check;
alter table event add constraint event_entity_check check (
  entity in (
    'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token', 'capacity',
    'namespace', 'user'
  )
) not valid;
alter table event validate constraint event_entity_check;
