-- get_meta: the store's epoch, clock mark and present instant.
select store_epoch, clock_mark, sichen_now() from meta where id = 1
