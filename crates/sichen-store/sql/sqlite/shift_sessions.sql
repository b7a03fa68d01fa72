-- shift_sessions: expiries of sessions that are not over at ?2, later by ?1.
-- scans: session
update session set expires_at = expires_at + ?1 where ended_at is null and expires_at > ?2
