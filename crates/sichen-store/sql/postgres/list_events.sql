-- list_events: events after $1, oldest first.
select e.* from event e where seq > $1 order by seq limit $2
