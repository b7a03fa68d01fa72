-- get_last_event: the highest number of the log.
select max(seq) from event
