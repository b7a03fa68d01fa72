-- delete_hold: an attempt that has surely ended holds nothing.
delete from hold where run_id = ?1 and no = ?2 and token = ?3 and capacity = ?4
