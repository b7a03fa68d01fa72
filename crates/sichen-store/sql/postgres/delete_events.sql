-- delete_events: remove the events of a run and its shards.
delete from event where run_id is not null and run_id = $1
