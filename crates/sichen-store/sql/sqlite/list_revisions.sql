-- list_revisions: a job's revisions after ?2 with the marks at which they began, in order.
select revision, begun_at from revision where job_uid = ?1 and revision > ?2 order by revision limit ?3
