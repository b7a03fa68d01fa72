-- lock_counted_jobs_of_runs: those jobs of runs whose rows count their runs, and those of whose backfills a run is:
-- a job guards its backfills too. A run never changes its job.
select j.* from (select job_uid, bool_or(backfill is not null) as lane from run where id = any($1::bigint[]) group by job_uid) r
join job j on j.uid = r.job_uid
where j.counting <> 'never' or r.lane order by j.uid for no key update of j
