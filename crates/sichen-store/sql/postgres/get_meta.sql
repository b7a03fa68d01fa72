-- get_meta: the store's epoch, clock mark, present reading, whether time is held, and whether any namespace has a
-- limit.
select store_epoch, clock_mark, sichen_now(), clock_held, clock_accepts, limited from meta where id = 1
