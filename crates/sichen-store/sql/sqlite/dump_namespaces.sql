-- dump_namespaces: every row, for tests and checks on small stores.
-- scans: namespace
select name, ver, weight, max_running, max_queued from namespace order by name
