-- Indexes that hold only what they are asked for: shards that wait (live and not held), by the rank of
-- their run, so that a dispatcher never walks runs all of whose shards are held; and held ones by pool.
alter table shard add column rank integer not null default 0;   -- its run's, fixed
update shard set rank = run.rank from run where run.id = shard.run_id and run.rank <> 0;
drop index shard_waiting;
drop index shard_pool_waiting;
drop index shard_held;
drop index run_grantable;
create index shard_waiting on shard (pool, rank, run_id, ready_at, no) where live and session_id is null;
-- Its last condition always holds; it keeps the looks for a run's shards from taking this index while the
-- table is small.
create index shard_pool_waiting on shard (pool, ready_at) where live and session_id is null and no >= -1;
-- A job's runs in one state, newest first; its runs in all states are merged from these.
drop index run_job;
create index run_job on run (job_uid, state, id) where id > 0;
create index session_live on session (id) where ended_at is null;
-- In the order of the log, so that a page of them need not sort all.
drop index event_unchanged;
create index event_unchanged on event (entity_id, entity, seq) where ver = 0;
-- By occasion first: the runs of one instant lie together, and a range of jobs does not match this index.
alter table run drop constraint run_job_uid_occasion_key;
alter table run add constraint run_occasion unique (occasion, job_uid);
-- In the order in which decisions are listed.
drop index decision_job;
create index decision_job on decision (job_uid, to_at, from_at, id);
