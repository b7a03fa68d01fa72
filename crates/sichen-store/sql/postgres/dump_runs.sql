-- dump_runs: every row, for tests and checks on small stores.
-- scans: run
select run.* from run order by id
