-- delete_request_keys: forget idempotency keys that came before $1, the oldest first, at most $2.
delete from request_key where key in (select key from request_key where at < $1 order by at limit $2)
