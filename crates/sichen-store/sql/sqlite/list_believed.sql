-- list_believed: tokens by name, then users by name as their documents, at most ?1 of each.
-- scans: access_token
-- scans: account
select * from (select name, kind, digest, grants, pool, handlers, expires_at, created_at, created_by, revoked_at, used_at, ver, workers, null as document from access_token order by name limit ?1) as tokens
union all
select * from (select name, null, null, null, null, null, cast(null as bigint), cast(null as bigint), null, cast(null as bigint), cast(null as bigint), cast(null as bigint), null, document from account order by name limit ?1) as users
