-- count_queued_of_namespace: runs of namespace ?1 of which nothing was started, up to ?2.
select count(*) from (select 1 from run where namespace = ?1 and state = 'scheduled' limit ?2)
