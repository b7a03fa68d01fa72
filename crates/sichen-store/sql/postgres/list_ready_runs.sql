-- list_ready_runs: open runs of pool $1 after ($2, $3) in (rank, id) with a shard that is ready at $4.
select r.* from run r
where pool = $1 and live and ended_at is null and stop_cause is null and (rank, id) > ($2, $3)
  and exists (select 1 from shard s where s.run_id = r.id and s.live and s.state in ('scheduled', 'retry') and s.ready_at <= $4)
order by rank, id limit $5
