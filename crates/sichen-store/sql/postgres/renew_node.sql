-- renew_node: push out a node's lease by $2 if it has not ended at the clock $3 (read under the lock), and
-- the clock mark with it, and whether time is held; also what a reading of the clock would have said (as get_meta),
-- and how many other nodes live (as list_nodes).
-- Differs from sqlite/renew_node.sql in being the whole use case.
-- scans: node
with n as materialized (select id from node where id = $1 for no key update),
  k as materialized (select clock_mark, clock_held, clock_accepts from meta where id = 1),
  t as materialized (select coalesce(($3::bigint[])[1], (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    as wall, sichen_now($3::bigint[]) as now from n),
  m as (update meta set clock_mark = greatest(clock_mark, t.now), clock_held = t.now < t.wall from t
    where meta.id = 1 and (clock_mark < t.now - 1000000 or clock_held <> (t.now < t.wall)))
update node set expires_at = sichen_now($3::bigint[]) + $2 from n, t, k
where node.id = n.id and node.expires_at > sichen_now($3::bigint[])
returning node.expires_at, t.wall, k.clock_mark, k.clock_held, k.clock_accepts,
  (select count(*)::integer from node o where o.expires_at > t.now and o.id <> n.id)
