-- list_backfills: backfills of job ?3 before id ?1, newest first.
select b.* from backfill b where job_uid = ?3 and id < ?1 order by id desc limit ?2
