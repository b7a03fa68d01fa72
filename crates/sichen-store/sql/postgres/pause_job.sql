-- pause_job: pause ($3) or resume a job (guard: row version $2).
update job set paused = $3, next_due = $4, ver = ver + 1
where uid = $1 and ver = $2 and deleted_at is null
