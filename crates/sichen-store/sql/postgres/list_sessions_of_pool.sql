-- list_sessions_of_pool: sessions of pool $1 that are not ended.
select s.* from session s where pool = $1 and ended_at is null order by id
