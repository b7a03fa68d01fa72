-- count_request_keys: how many idempotency keys of an author are kept, ?2 at most.
select count(*) from (select 1 from request_key where author = ?1 limit ?2) of_author
