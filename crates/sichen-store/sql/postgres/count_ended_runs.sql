-- count_ended_runs: runs that ended since $1 by state, of the last $2.
select state, count(*) from (
  select state from run where ended_at is not null and ended_at >= $1 order by ended_at desc, id desc limit $2
) r group by state order by state
