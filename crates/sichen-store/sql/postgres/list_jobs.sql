-- list_jobs: live jobs by name after ($1, $2).
select j.* from job j where deleted_at is null and (namespace, name) > ($1, $2)
order by namespace, name limit $3
