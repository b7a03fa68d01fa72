-- list_events_of_run: events of run $3 and its shards after $1, oldest first. Said as a range of
-- (run, place), so that its index alone gives the order.
select e.* from event e
where run_id is not null and (run_id, seq) > ($3, $1) and run_id <= $3 order by run_id, seq limit $2
