-- count_run: add what became of shards to the counters of runs.
update run r set open = r.open + i.open, succeeded = r.succeeded + i.succeeded, failed = r.failed + i.failed,
  cancelled = r.cancelled + i.cancelled
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  i (id, open, succeeded, failed, cancelled)
where r.id = i.id
