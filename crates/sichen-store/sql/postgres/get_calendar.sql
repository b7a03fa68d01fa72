-- get_calendar: a calendar in its newest version, if it was not deleted.
select namespace, name, version, document, changed_at from calendar
where namespace = $1 and name = $2 and deleted = false
