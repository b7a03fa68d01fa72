-- dump_capacities: every row, for tests and checks on small stores.
-- scans: capacity
select capacity.* from capacity order by name
