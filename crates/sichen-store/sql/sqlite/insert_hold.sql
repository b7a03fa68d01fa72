-- insert_hold: an attempt that was just granted holds what its run uses.
insert into hold (run_id, no, token, capacity, units, session_id, since) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
