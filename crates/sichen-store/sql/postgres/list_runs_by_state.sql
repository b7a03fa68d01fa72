-- list_runs_by_state: runs in state $3 before id $1, newest first.
select r.* from run r where state = $3 and id < $1 order by id desc limit $2
