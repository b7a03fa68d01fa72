-- Tokens of the API and of workers. A secret is in no row: its digest is.
create table access_token (
  name text collate "C" primary key,
  kind text not null check (kind in ('api', 'join')),
  digest text not null check (length(digest) = 64),
  grants text not null,                  -- of an api token: '*=viewer payments=operator'
  pool text,                             -- of a join token
  handlers text not null,                -- of a join token: JSON array, empty for any
  expires_at bigint,
  created_at bigint not null,
  created_by text not null,
  revoked_at bigint,
  used_at bigint,                        -- coarse, for display
  ver bigint not null check (ver > 0),
  check ((kind = 'api') = (grants <> '')),
  check ((kind = 'join') = (pool is not null))
);

alter table event drop constraint event_entity_check;
alter table event add constraint event_entity_check check (
  entity in (
    'job', 'run', 'shard', 'session', 'node', 'duty', 'calendar', 'backfill', 'access_token'
  )
) not valid;
alter table event validate constraint event_entity_check;
