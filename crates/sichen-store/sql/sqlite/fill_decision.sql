-- fill_decision: one more of the instants of a record has its run.
update decision set filled = filled + 1, filled_by = ?2 where id = ?1 and filled < count
