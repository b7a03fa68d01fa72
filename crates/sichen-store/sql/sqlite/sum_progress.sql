-- sum_progress: the sums of the progress of a run's shards, each as an upper and a lower half, so that
-- no number a worker reports can overflow them; only shards that run have a rate.
select
  sum(done >> 32), sum(done & 4294967295),
  sum(expected >> 32), sum(expected & 4294967295),
  sum(rate_milli >> 32) filter (where state = 'running'), sum(rate_milli & 4294967295) filter (where state = 'running')
from shard where run_id = ?1 and no >= 0
