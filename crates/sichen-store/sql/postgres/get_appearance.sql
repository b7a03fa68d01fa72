-- get_appearance: the newest registration of the worker uid $1, whatever became of its session.
select start, registration from session where worker_uid = $1 order by start desc, registration desc limit 1
