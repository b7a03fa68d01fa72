-- list_decisions: a job's decisions that end at $2 or later, oldest first.
select from_at, to_at, count, reason, reference from decision
where job_uid = $1 and to_at >= $2 order by from_at, to_at, id limit $3
