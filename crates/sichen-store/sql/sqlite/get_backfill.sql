-- get_backfill: one backfill.
select b.* from backfill b where id = ?1
