-- find_run: the run of an occasion, with the digest of its request.
select id, digest from run where job_uid = $1 and occasion = $2
