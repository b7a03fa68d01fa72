-- insert_event: append to the event log (unique: entity and version, where something changed).
-- Many at once, one array a column; the log numbers them in their order. Those of one call share their
-- instant, operation and actor.
insert into event (seq, at, op, actor, entity, entity_id, run_id, ver, duty, term, kind, from_state, to_state,
  attempt, token, cause, data)
select nextval('event_seq'), $1, $2, $3, i.*
from unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::text[],
  $12::text[], $13::bigint[], $14::bigint[], $15::text[], $16::text[]) i
