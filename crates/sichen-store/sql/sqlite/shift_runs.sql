-- shift_runs: deadlines of open runs that have not passed at ?2, later by ?1.
update run set deadline = deadline + ?1
where deadline is not null and ended_at is null and stop_cause is null and deadline >= ?2
