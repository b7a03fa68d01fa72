-- update_job: a job's new revision (guard: row version $2).
update job set revision = $3, ver = ver + 1, document = $4, next_due = $5, zones = $6
where uid = $1 and ver = $2 and deleted_at is null
