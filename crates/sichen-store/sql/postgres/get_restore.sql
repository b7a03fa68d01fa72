-- get_restore: the epoch; a restore that is not decided (nulls: there is none).
select store_epoch, restored_at, restored_mark, restored_newest from meta where id = 1
