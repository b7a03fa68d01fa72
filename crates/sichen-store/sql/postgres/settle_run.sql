-- settle_run: the outcomes that the rules found for runs of which nothing is open once these counts are
-- added. Differs from sqlite/settle_run.sql in counting in the same update.
update run r set open = r.open + i.open, succeeded = r.succeeded + i.succeeded, failed = r.failed + i.failed,
  cancelled = r.cancelled + i.cancelled, state = i.state, reason = i.reason, ended_at = i.ended_at, waits = null,
  waits_most = null, ver = r.ver + 1
from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
  $8::bigint[]) i (id, state, reason, ended_at, open, succeeded, failed, cancelled)
where r.id = i.id and r.open + i.open = 0 and r.ended_at is null
