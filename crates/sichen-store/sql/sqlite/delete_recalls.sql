-- delete_recalls: what is on record of a run that goes.
delete from recall where run_id = ?1
