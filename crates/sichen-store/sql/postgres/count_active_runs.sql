-- count_active_runs: a run of the job opened ($2 = 1) or closed ($2 = -1).
update job set active_runs = active_runs + $2 where uid = $1
