-- get_newest_event: its number, and when it was written.
select seq, at from event where seq = (select max(seq) from event)
