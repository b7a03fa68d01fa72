-- list_sessions: sessions of all pools that are not ended.
-- scans: session
select session.* from session indexed by session_live_pool where ended_at is null order by id
