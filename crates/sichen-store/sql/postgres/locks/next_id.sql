-- next_id: a new id, never given out again.
select nextval('entity_id')
