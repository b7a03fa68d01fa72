-- list_ready_shards: the first shards of each of these runs (of pool $4 and these places) that are ready at the clock $2
-- , at most $3 a run. Differs from sqlite/list_ready_shards.sql in asking for many runs at once.
select i.id, s.no, s.token
from (select unnest($1::bigint[]) as id, unnest($5::bigint[]) as queue, unnest($6::bigint[]) as turn) i
cross join lateral (
  select no, token, ready_at from (
    (select no, token, ready_at from shard
    where pool = $4 and not later and queue = i.queue and turn = i.turn and run_id = i.id and live
      and session_id is null and ready_at <= (select sichen_now($2::bigint[]))
    order by ready_at, no limit $3)
    union all
    (select no, token, ready_at from shard
    where pool = $4 and later and queue = i.queue and turn = i.turn and run_id = i.id and live
      and session_id is null and ready_at <= (select sichen_now($2::bigint[]))
    order by ready_at, no limit $3)) ready
  order by ready_at, no limit $3) s
order by i.id, s.ready_at, s.no
