-- dump_jobs: every row, for tests and checks on small stores.
-- scans: job
select job.* from job order by uid
