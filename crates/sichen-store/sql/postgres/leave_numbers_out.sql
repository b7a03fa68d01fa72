-- leave_numbers_out: after a restore, so that no number of the lost tail is given to another thing: $1 ids, $2 events.
-- Differs from sqlite/leave_numbers_out.sql: the numbers come from sequences here, of which some ids may be drawn.
select setval('entity_id', nextval('entity_id') - 1 + $1::bigint), setval('event_seq', nextval('event_seq') - 1 + $2::bigint)
