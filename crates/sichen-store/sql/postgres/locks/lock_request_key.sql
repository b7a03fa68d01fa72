-- lock_request_key: an idempotency key, against others that take it and against what is written under it.
select key from request_key where key = $1 for update
