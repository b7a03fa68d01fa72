-- renew_session: push out the expiry of sessions by $2 that are not over at the clock $3 (read under the
-- lock; version 1: not ended); never pulls one in. Differs from sqlite/renew_session.sql in being the whole
-- use case.
with l as materialized (select id from session where id = any($1::bigint[]) order by id for no key update)
update session s set expires_at = greatest(s.expires_at, sichen_now($3::bigint[]) + $2) from l
where s.id = l.id and s.ver = 1 and s.expires_at > sichen_now($3::bigint[]) returning s.id, s.expires_at
