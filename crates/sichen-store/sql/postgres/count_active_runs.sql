-- count_active_runs: so many more runs of jobs are open, or so many fewer.
update job j set active_runs = j.active_runs + i.by
from unnest($1::uuid[], $2::bigint[]) i (uid, by)
where j.uid = i.uid
