-- pause_job: pause ($3) or resume a job (guard: row version $2).
-- Written so that no plan goes through the names of all live jobs (differs from sqlite in this alone).
update job set paused = $3, next_due = $4, ver = ver + 1
where uid = $1 and ver = $2 and coalesce(deleted_at is null, false)
