-- list_capacity_users: jobs that use a capacity.
select j.namespace, j.name from capacity_use u join job j on j.uid = u.job_uid where u.name = $1 order by u.job_uid limit $2
