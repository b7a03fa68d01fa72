-- list_stale_calendar_users: jobs that go by an older version of a calendar, by uid after $1.
-- Differs from sqlite/list_stale_calendar_users.sql in what keeps the planner from walking all users.
-- scans: c
select s.namespace, s.name, s.version, s.newest, s.job_uid, j.namespace, j.name
from (
  select u.namespace, u.name, u.version, c.version as newest, u.job_uid
  from calendar c
  join calendar_use u on u.namespace = c.namespace and u.name = c.name and u.version < c.version
  offset 0
) s
join job j on j.uid = s.job_uid
where s.job_uid > $1
order by s.job_uid, s.namespace, s.name limit $2
