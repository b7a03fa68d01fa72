-- count_active_runs: so many more runs of jobs are open, and so many more of them wait for others.
update job j set active_runs = j.active_runs + i.by, waiting_runs = j.waiting_runs + i.waiting
from unnest($1::uuid[], $2::bigint[], $3::bigint[]) i (uid, by, waiting)
where j.uid = i.uid
