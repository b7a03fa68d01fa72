-- release_run: a run that waited for others may start from ?2 on.
update run set waits = null, waits_most = null, dead_by = null, ready_at = ?2, ver = ver + 1
where id = ?1 and waits is not null and ended_at is null
