-- count_active_runs: so many more runs of jobs are open, and so many more of them wait for others.
update job j set active_runs = j.active_runs + i.by, waiting_runs = j.waiting_runs + i.waiting
from (select unnest($1::uuid[]) as uid, unnest($2::bigint[]) as by, unnest($3::bigint[]) as waiting) i
where j.uid = i.uid
