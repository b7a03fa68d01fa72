-- list_events_of_run: events of run $3 and its shards after $1, oldest first.
select e.* from event e where run_id is not null and run_id = $3 and seq > $1 order by seq limit $2
