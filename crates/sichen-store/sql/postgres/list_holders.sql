-- list_holders: sessions that hold shards of pool $1 and are over at the clock $2; steps from holder to holder.
-- scans: holder
with recursive holder (id) as (
  (select min(session_id) from shard where pool = $1 and live and session_id is not null)
  union all
  select (select min(session_id) from shard where pool = $1 and live and session_id > holder.id)
  from holder where holder.id is not null
)
select holder.id from holder left join session on session.id = holder.id
where holder.id is not null
  and (session.id is null or session.ended_at is not null or session.expires_at <= (select sichen_now($2::bigint[])))
