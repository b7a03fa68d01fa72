-- reopen_shard: a closed shard waits again with a new budget, in the queue $5 (guard: row version $3).
-- Differs from sqlite/reopen_shard.sql in the queue, which there is the run's.
update shard set state = 'scheduled', used = 0, ready_at = $4, ended_at = null, discarded_at = null, digest = '', ver = ver + 1,
  queue = $5, later = false
where run_id = $1 and no = $2 and ver = $3 and state in ('failed', 'cancelled')
