-- delete_checks: checks of a run that goes, those that are over.
delete from backfill_check where run_id = $1 and state in ('agrees', 'differs', 'uncounted')
