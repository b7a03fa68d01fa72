-- list_access_tokens: tokens by name after ?1.
select name, kind, digest, grants, pool, handlers, expires_at, created_at, created_by, revoked_at, used_at, ver, workers from access_token where name > ?1 order by name limit ?2
