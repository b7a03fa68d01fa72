-- list_recalls_for: shards that were asked to give their slots to run ?1, the first ?2.
select r.* from recall r where by_run = ?1 order by run_id, no, token limit ?2
