-- get_revision: the document of one revision.
select document from revision where job_uid = $1 and revision = $2
