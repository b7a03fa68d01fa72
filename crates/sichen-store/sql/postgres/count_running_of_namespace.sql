-- count_running_of_namespace: held shards whose queues are from $1 to $2, those of a namespace.
-- Differs from sqlite/count_running_of_namespace.sql in the index that has them.
select count(*) from shard where queue between $1 and $2 and session_id is not null
