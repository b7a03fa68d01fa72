-- get_first_waiting: the run of job ?1 that has waited longest for others. None that is closed waits.
select r.* from run r where job_uid = ?1 and waits is not null order by id limit 1
