-- count_open_runs: runs of job ?1 that are not closed and of no backfill; no more than ?2 are counted.
select count(*) from (select 1 from run where job_uid = ?1 and ended_at is null and backfill is null order by id limit ?2)
