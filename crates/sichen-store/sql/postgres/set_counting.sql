-- set_counting: whether the open runs of the job are counted in its row, and how many there are.
update job set counting = $2, active_runs = $3, waiting_runs = $4 where uid = $1
