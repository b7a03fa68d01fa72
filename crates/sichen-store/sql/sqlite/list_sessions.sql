-- list_sessions: sessions of all pools that are not ended.
select s.* from session s indexed by session_live_pool where ended_at is null order by id
