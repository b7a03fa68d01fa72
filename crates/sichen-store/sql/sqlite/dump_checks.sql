-- dump_checks: all checks of backfills' runs.
-- scans: c
select c.* from backfill_check c order by run_id, round
