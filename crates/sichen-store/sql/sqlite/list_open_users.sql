-- list_open_users: open runs that use capacity ?1; the index has only open runs that use any.
-- scans: run
select id from run where ended_at is null and uses is not null
  and exists (select 1 from json_each(uses) where key = ?1) order by id limit ?2
