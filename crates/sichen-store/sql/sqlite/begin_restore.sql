-- begin_restore: the store went back at ?1; what came after ?2 and the event ?3 is lost.
update meta set restored_at = ?1, restored_mark = ?2, restored_newest = ?3 where id = 1
