-- update_meta: keep the clock mark and the counters; neither ever goes back.
update meta set clock_mark = max(clock_mark, ?1), last_id = max(last_id, ?2), last_event = max(last_event, ?3)
where id = 1
