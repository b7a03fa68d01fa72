-- list_holders: sessions that hold shards of pool $1 and are over at the clock $2; steps from holder to holder.
-- Differs from sqlite/list_holders.sql in one null where nobody holds any: then no held shard is looked for.
-- scans: holder
with recursive holder (id) as (
  (select min(session_id) from shard where pool = $1 and live and session_id is not null)
  union all
  select (select min(session_id) from shard where pool = $1 and live and session_id > holder.id)
  from holder where holder.id is not null
)
select holder.id from holder left join session on session.id = holder.id
where holder.id is null and (select count(*) from holder) = 1 or holder.id is not null
  and (session.id is null or session.ended_at is not null or session.expires_at <= (select sichen_now($2::bigint[])))
