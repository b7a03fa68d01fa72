-- list_events_of_shard: events of one shard (?3: run/no) after ?1, oldest first. Versions rise with the
-- log, so a page that goes on after one of this shard's own events begins at its version.
-- scans: page
select * from (
  select page.* from (select e.* from event e where entity_id = ?3 and entity = 'shard' and ver > 0 and seq > ?1
    and ver > coalesce((select last.ver from event last where last.seq = ?1 and last.entity_id = ?3), 0)
   order by ver limit ?2) page
  union all
  select e.* from event e where entity_id = ?3 and entity = 'shard' and ver = 0 and seq > ?1
) order by seq limit ?2
