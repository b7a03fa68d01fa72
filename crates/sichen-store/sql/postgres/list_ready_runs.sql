-- list_ready_runs: open runs of pool $1 after ($2, $3) in (rank, id) with a shard that is ready at the clock $4.
-- Steps from run to run over the shards that wait: runs whose shards are all held cost nothing. A run
-- that is being stopped has no waiting shards. (SQLite walks its open runs.) Each run is looked up by its id,
-- whatever the planner thinks of a table that is empty: "offset 0" keeps it from joining by a walk over all runs.
with recursive head (rank, id, n) as (
  (select rank, run_id, 1 from shard
   where pool = $1 and live and session_id is null and (rank, run_id) > ($2, $3) and ready_at <= (select sichen_now($4::bigint[]))
   order by rank, run_id limit 1)
  union all
  select next.rank, next.run_id, head.n + 1 from head, lateral (
    select rank, run_id from shard
    where pool = $1 and live and session_id is null and (rank, run_id) > (head.rank, head.id) and ready_at <= (select sichen_now($4::bigint[]))
    order by rank, run_id limit 1) next
  where head.n < $5
)
select r.* from head cross join lateral (select * from run where run.id = head.id offset 0) r
where r.ended_at is null and r.stop_cause is null order by r.rank, r.id
