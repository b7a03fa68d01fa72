-- dump_events: every row, for tests and checks on small stores.
-- scans: event
select event.* from event order by seq
