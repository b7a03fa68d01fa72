-- dump_access_tokens: every row, for tests and checks on small stores.
-- scans: access_token
select name, kind, digest, grants, pool, handlers, expires_at, created_at, created_by, revoked_at, used_at, ver, workers from access_token order by name
