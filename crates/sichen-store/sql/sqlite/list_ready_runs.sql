-- list_ready_runs: the first open run of pool ?1 behind (?2, ?3, ?4) in (queue, turn, id) with a shard that is ready
-- at ?5. Differs from postgres/list_ready_runs.sql in answering one run: here a step costs no round trip.
select r.* from run r
where pool = ?1 and ended_at is null and stop_cause is null and (queue, turn, id) > (?2, ?3, ?4)
  and exists (select 1 from shard s where s.run_id = r.id and s.state in ('scheduled', 'retry') and s.ready_at <= ?5)
order by queue, turn, id limit 1
