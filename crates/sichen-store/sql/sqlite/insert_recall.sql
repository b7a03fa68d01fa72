-- insert_recall: a running attempt was asked to give its slot up.
insert into recall (run_id, no, token, by_run, priority, at) values (?1, ?2, ?3, ?4, ?5, ?6)
