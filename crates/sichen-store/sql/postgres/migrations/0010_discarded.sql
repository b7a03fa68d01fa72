-- When a failed shard was struck off the dead letters. A new column without a value rewrites nothing, and the
-- check is asked of new rows alone.
alter table shard add column discarded_at bigint;
alter table shard add constraint shard_discarded_while_failed
  check (discarded_at is null or state = 'failed') not valid;
