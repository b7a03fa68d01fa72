-- list_recalls: shards of run ?1 that were asked to give their slots up.
-- Differs from postgres/list_recalls.sql in the list parameter alone: one run at a time here.
select r.* from recall r where run_id = ?1 order by no, token
