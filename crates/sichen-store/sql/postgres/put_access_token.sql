-- put_access_token: a token, in the place of an older one of its name.
insert into access_token (name, kind, digest, grants, pool, handlers, expires_at, created_at, created_by, revoked_at, used_at, ver, workers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, null, null, $10, $11)
on conflict (name) do update set kind = excluded.kind, digest = excluded.digest, grants = excluded.grants,
  pool = excluded.pool, handlers = excluded.handlers, expires_at = excluded.expires_at,
  created_at = excluded.created_at, created_by = excluded.created_by, revoked_at = null, used_at = null,
  ver = excluded.ver, workers = excluded.workers
