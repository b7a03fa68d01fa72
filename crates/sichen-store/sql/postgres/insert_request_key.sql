-- insert_request_key: an idempotency key that came for the first time.
insert into request_key (key, author, request, seed, holder, node_id, at, held_at) values ($1, $2, $3, $4, $5, $6, $7, $7)
