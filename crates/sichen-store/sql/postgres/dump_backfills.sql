-- dump_backfills: every row, for tests and checks on small stores.
-- scans: backfill
select backfill.* from backfill order by id
