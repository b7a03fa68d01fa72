-- find_backfill: the backfill of a job that was asked for with a key.
select b.* from backfill b where job_uid = ?1 and key = ?2
