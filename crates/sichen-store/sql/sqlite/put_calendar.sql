-- put_calendar: a calendar's newest version and whether that is its end.
insert into calendar (namespace, name, version, deleted, document, changed_at) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (namespace, name) do update set version = excluded.version, deleted = excluded.deleted,
  document = excluded.document, changed_at = excluded.changed_at
