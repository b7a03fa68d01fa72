-- insert_revision: a job's numbered document; never changed.
insert into revision (job_uid, revision, document) values ($1, $2, $3)
