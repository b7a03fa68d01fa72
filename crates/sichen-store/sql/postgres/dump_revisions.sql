-- dump_revisions: every row, for tests and checks on small stores.
-- scans: revision
select job_uid, revision, document from revision order by job_uid, revision
