-- list_timed_out: held shards of pool $1 whose attempt must have ended by $2.
select s.* from shard s where pool = $1 and timeout_at is not null and timeout_at <= $2 order by timeout_at limit $3
