-- dump_capacity_uses: every row, for tests and checks on small stores.
-- scans: capacity_use
select name, job_uid, units from capacity_use order by name, job_uid
