-- The order in which waiting runs are read: namespace and lane with the priority, then the job
-- (sichen_core::dispatch::queue). So that a flood in one lane is stepped over to reach the next.
alter table run add column queue integer not null default 0;
alter table run add column turn integer not null default 0;
-- Those that are open, or may be opened again.
with recursive letter (words, n, h) as (
  select distinct namespace, 0, 7 from run where state not in ('succeeded', 'cancelled')
  union
  select distinct lower(substr(hex(job_uid), 17)), 0, 7 from run where state not in ('succeeded', 'cancelled')
  union all
  select words, n + 1, (h * 1000003 + unicode(substr(words, n + 1, 1)) + 1) % 4398046511093 from letter
  where n < length(words)
), number (words, h) as materialized (select words, h from letter where n = length(words))
update run set
  queue = (select h << 12 from number where words = namespace)
    | ((backfill is not null) << 11) | max(0, min(2000, 1000 + rank)),
  turn = (select h from number where words = lower(substr(hex(job_uid), 17)))
where state not in ('succeeded', 'cancelled');

drop index run_grantable;
create index run_grantable on run (pool, queue, turn, id) where ended_at is null and stop_cause is null;
