-- get_request_key: an idempotency key.
select author, request, seed, holder, node_id, at, held_at, done, status, kind, body from request_key where key = ?1
