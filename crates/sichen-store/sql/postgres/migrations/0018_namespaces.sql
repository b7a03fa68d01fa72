-- What namespaces may have of the pools.
create table namespace (
  name text collate "C" primary key,
  ver bigint not null check (ver > 0),
  weight bigint not null check (weight between 1 and 10000),
  max_running bigint check (max_running >= 0)     -- null: no limit
);
create index namespace_limited on namespace (name) where max_running is not null;
-- Whether any of them has a limit: read with the clock, so that where there is none nobody asks for it.
alter table meta add column limited boolean not null default false;

-- Held shards by namespace, lane and job too: a limit is counted there.
drop index shard_run_held;
create index shard_run_held on shard (queue, turn, run_id) with (deduplicate_items = off)
  where session_id is not null;

alter table event drop constraint event_entity_check;
alter table event add constraint event_entity_check check (
  entity in (
    'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token', 'capacity',
    'namespace'
  )
) not valid;
alter table event validate constraint event_entity_check;
