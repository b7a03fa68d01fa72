-- count_jobs: live jobs by whether they are paused, of the first $1 by name: that many are read.
-- scans: job
select paused, count(*) from (
  select paused from job where deleted_at is null order by namespace, name limit $1
) j group by paused
