-- When a failed shard was struck off the dead letters.
alter table shard add column discarded_at integer check (discarded_at is null or state = 'failed');
