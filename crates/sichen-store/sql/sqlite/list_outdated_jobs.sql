-- list_outdated_jobs: jobs of the partitions ?2 (JSON array) whose mark was set by zone data older than ?1.
select j.* from job j
where zones is not null and paused = 0 and deleted_at is null
  and substr(zones, 1, 15) < '{"data":"' || ?1 || '"' and partition in (select value from json_each(?2))
order by substr(zones, 1, 15), uid limit ?3
