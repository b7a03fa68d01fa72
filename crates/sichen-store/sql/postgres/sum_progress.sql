-- sum_progress: the sums of the progress of a run's shards, each as an upper and a lower half, so that
-- no number a worker reports can overflow them; only shards that run have a rate.
select
  (sum(done >> 32))::bigint, (sum(done & 4294967295))::bigint,
  (sum(expected >> 32))::bigint, (sum(expected & 4294967295))::bigint,
  (sum(rate_milli >> 32) filter (where state = 'running'))::bigint, (sum(rate_milli & 4294967295) filter (where state = 'running'))::bigint
from shard where run_id = $1 and no >= 0
