-- insert_event: append to the event log (unique: entity and version, where something changed).
-- Many at once, one array a column; the log numbers them in their order. Those of one call share their
-- instant and operation; each has its own actor ($3).
insert into event (seq, at, op, actor, entity, entity_id, run_id, ver, duty, term, kind, from_state, to_state,
  attempt, token, cause, data)
select nextval('event_seq'), $1, $2, i.*
from (select unnest($3::text[]) as actor, unnest($4::text[]) as entity, unnest($5::text[]) as entity_id, unnest($6::bigint[]) as run_id,
  unnest($7::bigint[]) as ver, unnest($8::text[]) as duty, unnest($9::bigint[]) as term, unnest($10::text[]) as kind,
  unnest($11::text[]) as from_state, unnest($12::text[]) as to_state, unnest($13::bigint[]) as attempt,
  unnest($14::bigint[]) as token, unnest($15::text[]) as cause, unnest($16::text[]) as data) i
