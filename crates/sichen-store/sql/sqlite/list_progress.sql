-- list_progress: the progress of a run's shards; summed by the caller, who knows what may overflow.
select state, done, expected, rate_milli from shard where run_id = ?1 and no >= 0
