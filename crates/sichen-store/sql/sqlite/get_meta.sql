-- get_meta: the store's epoch, clock mark, counters, and whether time is held.
select store_epoch, clock_mark, last_id, last_event, clock_held, clock_accepts from meta where id = 1
