-- stop_run: record why a run is being stopped; the first cause stays.
update run set stop_cause = $2, stopped_at = $3, stop_detail = $4, ver = ver + 1
where id = $1 and stop_cause is null and ended_at is null
