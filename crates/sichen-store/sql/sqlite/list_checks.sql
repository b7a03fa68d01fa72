-- list_checks: checks of backfill ?1 after (run ?2, round ?3), in order.
select c.* from backfill_check c
where backfill = ?1 and (run_id, round) > (?2, ?3) order by run_id, round limit ?4
