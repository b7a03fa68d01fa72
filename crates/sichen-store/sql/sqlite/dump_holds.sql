-- dump_holds: every row, for tests and checks on small stores.
-- scans: hold
select hold.* from hold order by run_id, no, token, capacity
