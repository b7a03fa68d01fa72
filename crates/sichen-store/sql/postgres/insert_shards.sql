-- insert_shards: shards, of any runs, waiting or given away at once. One statement for many: a run may
-- have 100,000. Differs from sqlite/insert_shards.sql in what makes a shard born leased.
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, session_id,
  grant_seq, timeout_at, started_at, digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on, rank,
  attempt_until, stall_us)
select i.run_id, i.no, i.pool, i.descriptor, i.state, 1, i.token, i.attempt, i.attempt, 0, i.ready_at, i.session_id,
  i.grant_seq, i.timeout_at, i.started_at, '', 0, '', 0, 0, '', i.rank, i.attempt_until,
  i.stall_us
from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[],
  $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
  i (run_id, pool, no, descriptor, ready_at, rank, state, token, attempt, session_id, grant_seq, timeout_at, started_at,
    attempt_until, stall_us)
