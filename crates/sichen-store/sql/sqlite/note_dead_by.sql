-- note_dead_by: what closed before the waiting run ?1 may live until ?2; never pulls it in.
update run set dead_by = max(coalesce(dead_by, ?2), ?2) where id = ?1 and ended_at is null
