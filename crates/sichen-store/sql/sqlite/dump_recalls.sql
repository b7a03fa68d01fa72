-- dump_recalls: every row, for tests and checks on small stores.
-- scans: recall
select recall.* from recall order by run_id, no, token
