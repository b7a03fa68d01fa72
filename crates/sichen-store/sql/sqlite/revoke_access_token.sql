-- revoke_access_token: a token of version ?2 is over.
update access_token set revoked_at = ?3, ver = ver + 1 where name = ?1 and ver = ?2 and revoked_at is null
