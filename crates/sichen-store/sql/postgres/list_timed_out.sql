-- list_timed_out: held shards of pool $1 whose attempt must have ended $4 before the clock $2.
-- Differs from sqlite/list_timed_out.sql in reading the clock itself.
select s.* from shard s where pool = $1 and timeout_at is not null and timeout_at <= (select sichen_now($2::bigint[])) - $4 order by timeout_at limit $3
