-- count_running_of_job: held shards whose queues are from $1 to $2, those of a namespace, and whose turn is $3, that of a job.
-- Differs from sqlite/count_running_of_job.sql in the index that has them.
select count(*) from shard where queue between $1 and $2 and turn = $3 and session_id is not null
