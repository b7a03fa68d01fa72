-- settle_run: the outcomes that the rules found for runs of which nothing is open.
update run r set state = i.state, reason = i.reason, ended_at = i.ended_at, waits = null, waits_most = null,
  ver = r.ver + 1
from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) i (id, state, reason, ended_at)
where r.id = i.id and r.open = 0 and r.ended_at is null
