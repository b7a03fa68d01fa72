-- end_attempt: end running attempts as the rules decided (guard: the old token).
update shard s set state = i.state, token = i.token, used = i.used, ready_at = i.ready_at, digest = i.digest,
  done = i.done, expected = i.expected, rate_milli = i.rate_milli, waiting_on = i.waiting_on,
  failure_code = i.failure_code, failure_message = i.failure_message, ended_at = i.ended_at, last_end = i.last_end,
  session_id = null, timeout_at = null, attempt_until = null, stall_us = null, later = i.later,
  ver = s.ver + 1
from (select unnest($1::bigint[]) as run_id, unnest($2::bigint[]) as no, unnest($3::bigint[]) as old_token,
  unnest($4::text[]) as state, unnest($5::bigint[]) as token, unnest($6::bigint[]) as used,
  unnest($7::bigint[]) as ready_at, unnest($8::text[]) as digest, unnest($9::bigint[]) as done,
  unnest($10::bigint[]) as expected, unnest($11::bigint[]) as rate_milli, unnest($12::text[]) as waiting_on,
  unnest($13::text[]) as failure_code, unnest($14::text[]) as failure_message, unnest($15::bigint[]) as ended_at,
  unnest($16::text[]) as last_end, unnest($17::boolean[]) as later) i
where s.run_id = i.run_id and s.no = i.no and s.token = i.old_token and s.state = 'running'
