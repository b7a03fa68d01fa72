-- list_runs: runs before id $1, newest first.
select r.* from run r where id < $1 order by id desc limit $2
