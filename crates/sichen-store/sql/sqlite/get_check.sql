-- get_check: the check of a run's round.
select c.* from backfill_check c where run_id = ?1 and round = ?2
