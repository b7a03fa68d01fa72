-- follow_job: what follows a job's runs, and its next instant (guard: row version $2).
-- Written so that no plan goes through the names of all live jobs (differs from sqlite in this alone).
update job set chain = $3, next_due = $4, ver = ver + 1
where uid = $1 and ver = $2 and coalesce(deleted_at is null, false)
