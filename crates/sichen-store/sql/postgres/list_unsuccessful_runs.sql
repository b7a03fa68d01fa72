-- list_unsuccessful_runs: runs of no backfill that ended since $1 without success, the last first. What was
-- cancelled counts if it did not start in time ($3), else somebody wanted it so.
select r.* from run r where ended_at is not null and state <> 'succeeded' and ended_at >= $1
  and backfill is null and (state <> 'cancelled' or stop_detail = $3)
order by ended_at desc, id desc limit $2
