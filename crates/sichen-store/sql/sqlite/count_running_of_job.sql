-- count_running_of_job: held shards of job ?1, among all that are held: one process's.
-- scans: s
select count(*) from shard s indexed by shard_run_held cross join run r on r.id = s.run_id
where s.session_id is not null and r.job_uid = ?1
