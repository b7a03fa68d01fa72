-- insert_event: append to the event log (unique: entity and version, where something changed).
insert into event (seq, entity, entity_id, run_id, ver, at, op, actor, duty, term, kind, from_state, to_state,
  attempt, token, cause, data)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
