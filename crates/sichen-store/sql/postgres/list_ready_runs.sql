-- list_ready_runs: open runs of pool $1 behind ($2, $3, $4) with a shard that is ready at the clock $5, in the order
-- (queue, turn, id): at most $6, and $7 of a lane, $8 of a job, as sichen_core::dispatch::queue::Walk says.
-- Steps over the shards that wait, from run to run: runs whose shards are all held cost nothing. A step reads on
-- to the next shard that is ready, 200 entries of the index at most; if none is among them the next step begins
-- after the last one's run: a run's entries begin with the one that is ready first, so none of it is. So a run
-- whose hundred thousand shards wait for a retry costs one step. What was written to wait for a later instant is
-- not in the way: the first 500 shards of it that have become ready since are taken by time; how many there were is
-- in each row, for the caller to put them among the others if there may be more (promote_later), and to apply the
-- window to both together. A run that is being stopped has no waiting shards. (SQLite
-- is asked for one run at a time, and walks its open runs, a look each.)
with recursive fresh as materialized (
  select queue, turn, run_id from shard
  where pool = $1 and later and live and session_id is null and no >= -1
    and ready_at <= (select sichen_now($5::bigint[]))
  order by ready_at limit 500
), head (queue, turn, id, ready, n, of_lane, of_queue, of_job, most) as (
  select $2::bigint, $3::bigint, $4::bigint, false, 0, 0, 0, 0, $7::integer
  union all
  select next.queue, next.turn, next.run_id, next.ready, head.n + next.ready::integer,
    same.of_lane + next.ready::integer,
    case when next.queue = head.queue then head.of_queue else 0 end + next.ready::integer,
    case when (next.queue, next.turn) = (head.queue, head.turn) then head.of_job else 0 end + next.ready::integer,
    -- Half of what is left of the lane's part, rounded up.
    case when next.queue = head.queue then head.most
      else greatest(1, ($7::integer - same.of_lane) - ($7::integer - same.of_lane) / 2) end
  from head, lateral (
    select case when head.of_lane >= $7::integer then head.queue | 2047 else head.queue end as queue,
      case when head.of_lane >= $7::integer or head.of_queue >= head.most
        then 9223372036854775807 else head.turn end as turn,
      case when head.of_lane >= $7::integer or head.of_queue >= head.most or head.of_job >= $8::integer
        then 9223372036854775807 else head.id end as id) behind,
  lateral (
    (select queue, turn, run_id, true as ready from (
      select queue, turn, run_id, ready_at from shard
      where pool = $1 and not later and live and session_id is null
        and (queue, turn, run_id) > (behind.queue, behind.turn, behind.id)
      order by queue, turn, run_id, ready_at limit 200) ahead
    where ready_at <= (select sichen_now($5::bigint[])) limit 1)
    union all
    (select queue, turn, run_id, false from (
      select queue, turn, run_id from shard
      where pool = $1 and not later and live and session_id is null
        and (queue, turn, run_id) > (behind.queue, behind.turn, behind.id)
      order by queue, turn, run_id, ready_at limit 200) passed
    order by queue desc, turn desc, run_id desc limit 1)
    limit 1) next,
  lateral (
    select case when next.queue >> 11 = head.queue >> 11 then head.of_lane else 0 end as of_lane) same
  where head.n < $6::integer
)
select r.*, (select count(*)::integer from fresh) as fresh
from (
  select queue, turn, id from head where ready
  union
  select queue, turn, run_id from fresh where (queue, turn, run_id) > ($2::bigint, $3::bigint, $4::bigint)
) found
-- Run by run, whatever the plan was made of: of an almost empty store it would go through all runs instead.
cross join lateral (
  select * from run where id = found.id and ended_at is null and stop_cause is null limit 1) r
order by found.queue, found.turn, found.id
