-- follow_job: what follows a job's runs, and its next instant (guard: row version ?2).
update job set chain = ?3, next_due = ?4, ver = ver + 1
where uid = ?1 and ver = ?2 and deleted_at is null
