-- count_active_runs: so many more runs of the job are open (?2), and so many more of them wait for others (?3).
update job set active_runs = active_runs + ?2, waiting_runs = waiting_runs + ?3 where uid = ?1
