-- promote_later: shards of pool $1 that waited for an instant and are ready at the clock $2 wait among all others
-- from now on, $3 of them, but for the first $4 (which are locked too); how many. No row is waited
-- for: one that is locked is being given away, and needs it no more. (By their places: nothing else makes every plan
-- go to these rows alone.)
with promoted as (
  update shard set later = false
  where ctid = any(array(
    select ctid from shard
    where pool = $1 and later and live and session_id is null and no >= -1
      and ready_at <= (select sichen_now($2::bigint[]))
    order by ready_at limit $3::integer offset $4::integer for no key update skip locked))
  returning 1
)
select count(*)::integer from promoted
