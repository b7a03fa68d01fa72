-- leave_numbers_out: after a restore, so that no number of the lost tail is given to another thing.
-- Differs from sqlite/leave_numbers_out.sql: the numbers come from sequences here.
select setval('entity_id', nextval('entity_id') + $1::bigint), setval('event_seq', nextval('event_seq') + $1::bigint)
