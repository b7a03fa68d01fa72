-- insert_revision: a job's numbered document; never changed.
insert into revision (job_uid, revision, document, begun_at) values ($1, $2, $3, $4)
