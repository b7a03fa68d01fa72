-- count_open_runs: runs of job $1 that are not closed and of no backfill; no more than $2 are counted.
-- In an order that the index of open runs alone has: that of all runs would be read to its end for a few.
select count(*) from (
  select 1 from run where job_uid = any (array[$1::uuid]) and live and backfill is null order by job_uid, id limit $2
) r
