-- count_runs_in_state: runs in state $1, up to $2.
select count(*) from (select 1 from run where state = $1 limit $2) r
