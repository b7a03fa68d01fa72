-- list_runs_of_backfill: runs of backfill ?3 before id ?1, newest first.
select r.* from run r where backfill = ?3 and id < ?1 order by id desc limit ?2
