-- get_meta: the store's epoch, clock mark, present reading, and whether time is held.
select store_epoch, clock_mark, sichen_now(), clock_held, clock_accepts from meta where id = 1
