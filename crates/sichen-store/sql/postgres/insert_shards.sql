-- insert_shards: shards, of any runs, waiting or given away at once. One statement for many: a run may
-- have 100,000. Differs from sqlite/insert_shards.sql in what makes a shard born leased.
insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, session_id,
  grant_seq, timeout_at, started_at, digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on, queue, turn,
  attempt_until, stall_us, later)
select i.run_id, i.no, i.pool, i.descriptor, i.state, 1, i.token, i.attempt, i.attempt, 0, i.ready_at, i.session_id,
  i.grant_seq, i.timeout_at, i.started_at, '', 0, '', 0, 0, '', i.queue, i.turn, i.attempt_until,
  i.stall_us, i.later
from (select unnest($1::bigint[]) as run_id, unnest($2::text[]) as pool, unnest($3::bigint[]) as no,
  unnest($4::text[]) as descriptor, unnest($5::bigint[]) as ready_at, unnest($6::bigint[]) as queue,
  unnest($7::bigint[]) as turn, unnest($8::text[]) as state, unnest($9::bigint[]) as token,
  unnest($10::bigint[]) as attempt, unnest($11::bigint[]) as session_id, unnest($12::bigint[]) as grant_seq,
  unnest($13::bigint[]) as timeout_at, unnest($14::bigint[]) as started_at, unnest($15::bigint[]) as attempt_until,
  unnest($16::bigint[]) as stall_us, unnest($17::boolean[]) as later) i
