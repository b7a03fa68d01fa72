-- move_check: where a check has come (guard: its state was ?3).
update backfill_check set state = ?4, by_run = ?5, found = ?6, expected = ?7, why = ?8, at = ?9
where run_id = ?1 and round = ?2 and state = ?3
