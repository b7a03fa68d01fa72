-- list_decisions: a job's decisions that end at $2 or later, oldest end first.
select from_at, to_at, count, reason, reference, filled, filled_by from decision
where job_uid = $1 and to_at >= $2 order by to_at, from_at, id limit $3
