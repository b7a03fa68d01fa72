-- count_running_of_job: held shards of job $4, among those whose queues are from $1 to $2, those of its namespace, and whose turn is $3.
-- Differs from sqlite/count_running_of_job.sql in the index that has them; two jobs may have one turn.
select count(*) from shard s join run r on r.id = s.run_id
where s.queue between $1 and $2 and s.turn = $3 and s.session_id is not null and r.job_uid = $4
