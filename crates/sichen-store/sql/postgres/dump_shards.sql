-- dump_shards: every row, for tests and checks on small stores.
-- scans: shard
select shard.* from shard order by run_id,no
