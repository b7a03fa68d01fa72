-- advance_job: move a job's high-water mark (guards: row version ?2, old mark ?3, never back).
update job set high_water = ?4, next_due = ?5, chain = ?6,
  zones = coalesce(?7, zones), ver = ver + 1
where uid = ?1 and ver = ?2 and high_water = ?3 and ?4 >= high_water and deleted_at is null
