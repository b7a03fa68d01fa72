-- count_checks: what became of checks of a backfill, and when the next is due (its version goes up by one).
update backfill set next_check_at = $2, checks_due = checks_due + $3, checks_open = checks_open + $4,
  checks_agree = checks_agree + $5, checks_differ = checks_differ + $6, checks_uncounted = checks_uncounted + $7, ver = ver + 1
where id = $1
