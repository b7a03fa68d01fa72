-- list_calendar_users: jobs that use a calendar, by uid after ?3.
select u.namespace, u.name, u.version, c.version, u.job_uid, j.namespace, j.name
from calendar_use u join calendar c using (namespace, name) join job j on j.uid = u.job_uid
where u.namespace = ?1 and u.name = ?2 and u.job_uid > ?3
order by u.job_uid limit ?4
