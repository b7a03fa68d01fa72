-- update_job: a job's new revision (guard: row version $2).
-- Written so that no plan goes through the names of all live jobs (differs from sqlite in this alone).
update job set revision = $3, ver = ver + 1, document = $4, next_due = $5, zones = $6
where uid = $1 and ver = $2 and coalesce(deleted_at is null, false)
