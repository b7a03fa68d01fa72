-- insert_calendar_use: a job goes by a version of a calendar.
insert into calendar_use (job_uid, namespace, name, version) values ($1, $2, $3, $4)
