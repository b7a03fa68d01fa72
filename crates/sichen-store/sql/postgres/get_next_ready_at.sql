-- get_next_ready_at: when the next waiting shard of pool $1 becomes ready after $2. Waiting shards of a
-- run that is being stopped do not exist: the stop cancels them in its own transaction.
select ready_at from (
  (select ready_at from shard
  where pool = $1 and not later and live and session_id is null and no >= -1 and ready_at > $2 order by ready_at limit 1)
  union all
  (select ready_at from shard
  where pool = $1 and later and live and session_id is null and no >= -1 and ready_at > $2 order by ready_at limit 1)) next
order by ready_at limit 1
