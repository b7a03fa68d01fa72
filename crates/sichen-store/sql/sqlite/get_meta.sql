-- get_meta: the store's epoch, clock mark and counters.
select store_epoch, clock_mark, last_id, last_event from meta where id = 1
