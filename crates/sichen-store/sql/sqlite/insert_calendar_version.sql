-- insert_calendar_version: a calendar's numbered document; never changed.
insert into calendar_version (namespace, name, version, document, changed_at)
values (?1, ?2, ?3, ?4, ?5)
