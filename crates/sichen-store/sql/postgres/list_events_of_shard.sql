-- list_events_of_shard: events of one shard ($3: run/no) after $1, oldest first.
select * from (
  select e.* from event e where entity_id = $3 and entity = 'shard' and ver > 0 and seq > $1
  union all
  select e.* from event e where entity_id = $3 and entity = 'shard' and ver = 0 and seq > $1
) e order by seq limit $2
