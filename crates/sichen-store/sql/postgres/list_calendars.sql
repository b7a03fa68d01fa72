-- list_calendars: calendars by name after ($1, $2), in their newest versions.
select namespace, name, version, document, changed_at from calendar
where deleted = false and (namespace, name) > ($1, $2)
order by namespace, name limit $3
