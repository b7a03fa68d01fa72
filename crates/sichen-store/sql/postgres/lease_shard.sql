-- lease_shard: give waiting shards to sessions (guard: the old token); token, counts and version are the
-- caller's.
update shard s set state = 'running', session_id = i.session_id, token = i.token, attempt = i.attempt, used = i.used,
  takeovers = i.takeovers, grant_seq = i.grant_seq, timeout_at = i.timeout_at, started_at = i.started_at, ver = i.ver,
  attempt_until = i.attempt_until, stall_us = i.stall_us, digest = ''
from (select unnest($1::bigint[]) as run_id, unnest($2::bigint[]) as no, unnest($3::bigint[]) as old_token,
  unnest($4::bigint[]) as session_id, unnest($5::bigint[]) as token, unnest($6::bigint[]) as attempt,
  unnest($7::bigint[]) as used, unnest($8::bigint[]) as takeovers, unnest($9::bigint[]) as grant_seq,
  unnest($10::bigint[]) as timeout_at, unnest($11::bigint[]) as started_at, unnest($12::bigint[]) as ver,
  unnest($13::bigint[]) as attempt_until, unnest($14::bigint[]) as stall_us) i
where s.run_id = i.run_id and s.no = i.no and s.token = i.old_token and s.state in ('scheduled', 'retry')
