-- end_restore: the last of it is decided.
update meta set restored_at = null, restored_mark = null, restored_newest = null where id = 1 and restored_at is not null
