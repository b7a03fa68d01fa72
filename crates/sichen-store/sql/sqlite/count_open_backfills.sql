-- count_open_backfills: a job's backfills that are not over.
select count(*) from backfill where job_uid = ?1 and ended_at is null
