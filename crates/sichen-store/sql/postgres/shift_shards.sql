-- shift_shards: timeouts of held shards, later by $1.
-- scans: shard
update shard set timeout_at = timeout_at + $1, attempt_until = attempt_until + $1 where timeout_at is not null
