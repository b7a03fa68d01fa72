-- list_runs_by_state: runs in state $3 before id $1, newest first. Said as a range of (state, id), so that
-- its index alone gives the order.
select r.* from run r where (state, id) < ($3, $1) and state >= $3 order by state desc, id desc limit $2
