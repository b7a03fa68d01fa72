-- insert_job: a new job.
insert into job (uid, namespace, name, revision, ver, document, paused, high_water, next_due, active_runs, created_at, partition, zones, counting)
values ($1, $2, $3, 1, 1, $4, false, $5, $6, 0, $7, $8, $9, $10)
