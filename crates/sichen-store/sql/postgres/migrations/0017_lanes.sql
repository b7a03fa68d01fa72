-- The order in which waiting shards are read: namespace and lane with the priority, then the job, then the run
-- (sichen_core::dispatch::queue). So that a flood in one lane is stepped over to reach the next. `rank` is written
-- no more.
create function pg_temp.number_of(words text) returns bigint language plpgsql immutable as
$$declare h bigint := 7;
begin
  for i in 1 .. length(words) loop
    h := (h * 1000003 + ascii(substr(words, i, 1)) + 1) % 4398046511093;
  end loop;
  return h;
end$$;

alter table shard add column queue bigint not null default 0, add column turn bigint not null default 0;
-- Those of runs that are open, or may be opened again.
with space as materialized (
  select namespace, pg_temp.number_of(namespace) as n
  from (select distinct namespace from run where state not in ('succeeded', 'cancelled')) r
), one as materialized (
  select job_uid, pg_temp.number_of(substr(replace(job_uid::text, '-', ''), 17)) as n
  from (select distinct job_uid from run where state not in ('succeeded', 'cancelled')) r
)
update shard s
set queue = (space.n << 12) | ((r.backfill is not null)::integer::bigint << 11) | greatest(0, least(2000, 1000 + r.rank)),
  turn = one.n
from run r join space using (namespace) join one using (job_uid)
where r.id = s.run_id and r.state not in ('succeeded', 'cancelled');
drop function pg_temp.number_of(text);

drop index shard_waiting;
create index shard_waiting on shard (pool, queue, turn, run_id, ready_at, no) with (deduplicate_items = off)
  where live and session_id is null;
