-- read_runs: runs.
select r.* from run r where id = any($1::bigint[])
