-- get_access_token: a token by its name.
select name, kind, digest, grants, pool, handlers, expires_at, created_at, created_by, revoked_at, used_at, ver, workers from access_token where name = $1
