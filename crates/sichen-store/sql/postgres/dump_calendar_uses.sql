-- dump_calendar_uses: every row, for tests and checks on small stores.
-- scans: calendar_use
select namespace, name, job_uid, version from calendar_use order by namespace, name, job_uid
