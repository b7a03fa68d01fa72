-- lease_shard: give waiting shards to sessions (guard: the old token); token, counts and version are the
-- caller's.
update shard s set state = 'running', session_id = i.session_id, token = i.token, attempt = i.attempt, used = i.used,
  takeovers = i.takeovers, grant_seq = i.grant_seq, timeout_at = i.timeout_at, started_at = i.started_at, ver = i.ver,
  attempt_until = i.attempt_until, stall_us = i.stall_us, digest = ''
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
  $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
  i (run_id, no, old_token, session_id, token, attempt, used, takeovers, grant_seq, timeout_at, started_at, ver,
    attempt_until, stall_us)
where s.run_id = i.run_id and s.no = i.no and s.token = i.old_token and s.state in ('scheduled', 'retry')
