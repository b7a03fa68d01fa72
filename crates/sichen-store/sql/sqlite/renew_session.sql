-- renew_session: push out the expiry of a session that is not over (?3: now); never pulls it in.
update session set expires_at = max(expires_at, ?2) where id = ?1 and ended_at is null and expires_at > ?3
