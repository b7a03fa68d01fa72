-- dump_jobs: every row, for tests and checks on small stores.
-- scans: job
select t.* from job t order by uid
