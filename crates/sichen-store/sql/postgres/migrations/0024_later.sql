-- What waits for a later instant is kept apart from what was ready when it was written, so that a look along the
-- order of waiting work does not pass over a million runs of next year. A hint: whatever it says, `ready_at` decides.
-- Not for a running cluster: servers of the version before sort what they had in order, and the indexes are made
-- anew while all writers wait. Stop those first.
alter table shard add column later boolean not null default false;
update shard set later = true where live and session_id is null and no >= -1 and ready_at > sichen_now();

drop index shard_waiting;
create index shard_waiting on shard (pool, later, queue, turn, run_id, ready_at, no) with (deduplicate_items = off)
  where live and session_id is null;
drop index shard_pool_waiting;
create index shard_pool_waiting on shard (pool, later, ready_at) where live and session_id is null and no >= -1;
