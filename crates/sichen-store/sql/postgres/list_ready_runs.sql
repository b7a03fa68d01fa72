-- list_ready_runs: open runs of pool $1 after ($2, $3) in (rank, id) with a shard that is ready at the clock $4.
-- Steps over the shards that wait, from run to run: runs whose shards are all held cost nothing. A step reads on
-- to the next shard that is ready, 200 entries of the index at most; if none is among them the next step begins
-- after the last one's run: a run's entries begin with the one that is ready first, so none of it is. So a run
-- whose hundred thousand shards wait for a retry costs one step. A run that is being stopped has no waiting
-- shards. (SQLite walks its open runs, a look each.)
with recursive head (rank, id, ready, n) as (
  select $2::integer, $3::bigint, false, 0
  union all
  select next.rank, next.run_id, next.ready, head.n + next.ready::integer from head, lateral (
    (select rank, run_id, true as ready from (
      select rank, run_id, ready_at from shard
      where pool = $1 and live and session_id is null and (rank, run_id) > (head.rank, head.id)
      order by rank, run_id, ready_at limit 200) ahead
    where ready_at <= (select sichen_now($4::bigint[])) limit 1)
    union all
    (select rank, run_id, false from (
      select rank, run_id from shard
      where pool = $1 and live and session_id is null and (rank, run_id) > (head.rank, head.id)
      order by rank, run_id, ready_at limit 200) passed
    order by rank desc, run_id desc limit 1)
    limit 1) next
  where head.n < $5
)
select r.* from head join run r on r.id = head.id
where head.ready and r.ended_at is null and r.stop_cause is null order by r.rank, r.id
