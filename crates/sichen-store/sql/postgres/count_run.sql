-- count_run: add what became of shards to the counters of runs.
update run r set open = r.open + i.open, succeeded = r.succeeded + i.succeeded, failed = r.failed + i.failed,
  cancelled = r.cancelled + i.cancelled
from (select unnest($1::bigint[]) as id, unnest($2::bigint[]) as open, unnest($3::bigint[]) as succeeded,
  unnest($4::bigint[]) as failed, unnest($5::bigint[]) as cancelled) i
where r.id = i.id
