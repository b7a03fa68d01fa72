-- count_backfill: what became of runs of a backfill: so many more open, succeeded, failed, cancelled; those that
-- succeeded are to be checked, if it wants that.
update backfill set open = open + $2, succeeded = succeeded + $3, failed = failed + $4, cancelled = cancelled + $5,
  checks_due = checks_due + $3 * (verify_job is not null)::int
where id = $1
