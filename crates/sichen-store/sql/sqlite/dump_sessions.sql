-- dump_sessions: every row, for tests and checks on small stores.
-- scans: session
select t.* from session t order by id
