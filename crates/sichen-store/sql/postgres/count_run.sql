-- count_run: add what became of shards to the run's counters.
update run set open = open + $2, succeeded = succeeded + $3, failed = failed + $4, cancelled = cancelled + $5
where id = $1
