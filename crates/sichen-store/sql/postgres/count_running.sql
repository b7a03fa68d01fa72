-- count_running: shards of each of these runs that are held.
-- Differs from sqlite/count_running.sql in asking for many at once.
select i.id, (select count(*) from shard where run_id = i.id and session_id is not null)
from unnest($1::bigint[]) i (id)
