-- get_namespace: what was set of namespace ?1.
select name, ver, weight, max_running, max_queued from namespace where name = ?1
