-- expand_run: the plan step's answer was cut into $2 shards.
update run set total = $2, open = open + $2, ver = ver + 1 where id = $1 and ended_at is null
