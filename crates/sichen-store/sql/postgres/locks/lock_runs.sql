-- lock_runs: runs. Who holds a run may change its shards, except for their checkpoints.
select r.* from run r where id = any($1::bigint[]) order by id for no key update
