-- insert_decision: planned instants that are not run, and why.
insert into decision (job_uid, from_at, to_at, count, reason, reference) values ($1, $2, $3, $4, $5, $6)
