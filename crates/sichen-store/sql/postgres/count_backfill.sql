-- count_backfill: what became of runs of a backfill: so many more open, succeeded, failed, cancelled.
update backfill set open = open + $2, succeeded = succeeded + $3, failed = failed + $4, cancelled = cancelled + $5
where id = $1
