-- dump_shards: every row, for tests and checks on small stores.
-- scans: shard
select t.* from shard t order by run_id,no
