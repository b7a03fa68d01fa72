-- dump_sessions: every row, for tests and checks on small stores.
-- scans: session
select session.* from session order by id
