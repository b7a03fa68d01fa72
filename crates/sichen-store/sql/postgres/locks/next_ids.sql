-- next_ids: $1 new ids, never given out again.
select nextval('entity_id') from generate_series(1, $1::bigint)
