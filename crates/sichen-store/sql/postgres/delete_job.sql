-- delete_job: free a job's name and keep its history (guard: row version $2).
-- Written so that no plan goes through the names of all live jobs (differs from sqlite in this alone).
update job set deleted_at = $3, next_due = null, ver = ver + 1
where uid = $1 and ver = $2 and coalesce(deleted_at is null, false)
