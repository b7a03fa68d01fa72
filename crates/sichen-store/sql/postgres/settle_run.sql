-- settle_run: the outcomes that the rules found for runs of which nothing is open once these counts are
-- added. Differs from sqlite/settle_run.sql in counting in the same update.
update run r set open = r.open + i.open, succeeded = r.succeeded + i.succeeded, failed = r.failed + i.failed,
  cancelled = r.cancelled + i.cancelled, state = i.state, reason = i.reason, ended_at = i.ended_at, waits = null,
  waits_most = null, ver = r.ver + 1
from (select unnest($1::bigint[]) as id, unnest($2::text[]) as state, unnest($3::text[]) as reason,
  unnest($4::bigint[]) as ended_at, unnest($5::bigint[]) as open, unnest($6::bigint[]) as succeeded,
  unnest($7::bigint[]) as failed, unnest($8::bigint[]) as cancelled) i
where r.id = i.id and r.open + i.open = 0 and r.ended_at is null
