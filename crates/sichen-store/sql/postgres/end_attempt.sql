-- end_attempt: end running attempts as the rules decided (guard: the old token).
update shard s set state = i.state, token = i.token, used = i.used, ready_at = i.ready_at, digest = i.digest,
  done = i.done, expected = i.expected, rate_milli = i.rate_milli, waiting_on = i.waiting_on,
  failure_code = i.failure_code, failure_message = i.failure_message, ended_at = i.ended_at, last_end = i.last_end,
  session_id = null, timeout_at = null, attempt_until = null, stall_us = null, ver = s.ver + 1
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
  $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::bigint[],
  $16::text[])
  i (run_id, no, old_token, state, token, used, ready_at, digest, done, expected, rate_milli, waiting_on,
    failure_code, failure_message, ended_at, last_end)
where s.run_id = i.run_id and s.no = i.no and s.token = i.old_token and s.state = 'running'
