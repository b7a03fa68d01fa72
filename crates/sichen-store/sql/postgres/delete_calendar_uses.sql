-- delete_calendar_uses: a job has another revision, or none any more.
delete from calendar_use where job_uid = $1
