-- list_sessions: sessions of all pools that are not ended, with the number of shards each holds.
-- Differs from sqlite/list_sessions.sql in counting.
select s.*, (select count(*) from shard h where h.pool = s.pool and h.live and h.session_id is not null and h.session_id = s.id) from session s where ended_at is null order by id
