-- list_sessions: sessions of all pools that are not ended.
select session.* from session where ended_at is null order by id
