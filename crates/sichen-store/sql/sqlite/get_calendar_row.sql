-- get_calendar_row: the newest version of a calendar and whether it was deleted.
select version, deleted from calendar where namespace = ?1 and name = ?2
