-- renew_session: push out the expiry of sessions that are not over ($3: now; version 1: not ended); never
-- pulls one in.
update session set expires_at = greatest(expires_at, $2)
where id = any($1::bigint[]) and ver = 1 and expires_at > $3 returning id, expires_at
