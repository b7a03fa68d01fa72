-- turn_backfill: what a person, or the end of its job, made of a backfill (guard: version ?2).
update backfill set state = ?3, ended_at = ?4, cause = ?5, ver = ver + 1 where id = ?1 and ver = ?2
