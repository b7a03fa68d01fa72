-- dump_calendars: every row, for tests and checks on small stores.
-- scans: calendar_version
select namespace, name, version, document from calendar_version order by namespace, name, version
