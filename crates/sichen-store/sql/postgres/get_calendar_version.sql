-- get_calendar_version: a version of a calendar, deleted or not.
select namespace, name, version, document, changed_at from calendar_version
where namespace = $1 and name = $2 and version = $3
