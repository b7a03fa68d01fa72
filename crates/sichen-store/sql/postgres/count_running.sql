-- count_running: shards of each of these runs, at these places, that are held.
-- Differs from sqlite/count_running.sql in asking for many at once.
select i.id, (select count(*) from shard
  where queue = i.queue and turn = i.turn and run_id = i.id and session_id is not null)
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) i (id, queue, turn)
