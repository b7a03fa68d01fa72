-- list_outdated_jobs: jobs of the partitions $2 whose mark was set by zone data older than $1.
select j.* from job j
where zones is not null and not paused and deleted_at is null
  and left(zones, 15) collate "C" < '{"data":"' || $1::text || '"' and partition = any($2::bigint[])
order by left(zones, 15) collate "C", uid limit $3
