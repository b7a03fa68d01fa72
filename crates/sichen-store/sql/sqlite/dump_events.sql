-- dump_events: every row, for tests and checks on small stores.
-- scans: event
select t.* from event t order by seq
