-- save_checkpoint: store checkpoint $4, $5 and progress, the sign of life in $10 (guards: token $3, running, never back).
update shard set checkpoint_seq = $4, checkpoint = $5, done = $6, expected = $7, rate_milli = $8, waiting_on = $9,
  timeout_at = $10, ver = ver + 1
where run_id = $1 and no = $2 and token = $3 and state = 'running' and checkpoint_seq < $4
