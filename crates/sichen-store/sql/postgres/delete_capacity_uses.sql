-- delete_capacity_uses: a job has another revision, or none any more.
delete from capacity_use where job_uid = $1
