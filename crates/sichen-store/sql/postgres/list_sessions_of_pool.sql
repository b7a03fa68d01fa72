-- list_sessions_of_pool: sessions of pool $1 that are not ended, with the number of shards each holds.
-- Differs from sqlite/list_sessions_of_pool.sql in counting.
select s.*, (select count(*) from shard h where h.pool = s.pool and h.live and h.session_id is not null and h.session_id = s.id) from session s where pool = $1 and ended_at is null order by id
