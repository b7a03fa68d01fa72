-- find_run: the runs of occasions, one a pair of the two arrays, with the digests of their requests.
-- Differs from sqlite/find_run.sql in asking for many at once.
select i.job_uid, i.occasion, r.id, r.digest
from (select unnest($1::uuid[]) as job_uid, unnest($2::text[]) as occasion) i
join run r on r.job_uid = i.job_uid and r.occasion = i.occasion
