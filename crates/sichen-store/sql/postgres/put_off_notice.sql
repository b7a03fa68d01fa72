-- put_off_notice: one that was tried and is tried again at $2.
update notice set due_at = $2, tries = tries + 1 where id = $1
