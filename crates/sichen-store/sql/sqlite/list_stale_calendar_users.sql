-- list_stale_calendar_users: jobs that go by an older version of a calendar, by uid after ?1.
-- scans: c
select u.namespace, u.name, u.version, c.version, u.job_uid, j.namespace, j.name
from calendar c
cross join calendar_use u on u.namespace = c.namespace and u.name = c.name and u.version < c.version
cross join job j on j.uid = u.job_uid
where u.job_uid > ?1
order by u.job_uid, u.namespace, u.name limit ?2
