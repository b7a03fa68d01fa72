-- dump_runs: every row, for tests and checks on small stores.
-- scans: run
select t.* from run t order by id
