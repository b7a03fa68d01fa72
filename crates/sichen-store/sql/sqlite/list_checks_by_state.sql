-- list_checks_by_state: checks of backfill ?1 in state ?5 after (run ?2, round ?3), in order.
select c.* from backfill_check c
where backfill = ?1 and state = ?5 and (run_id, round) > (?2, ?3) order by run_id, round limit ?4
