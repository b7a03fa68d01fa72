-- list_namespaces: what was set of namespaces, by name after ?1, at most ?2.
select name, ver, weight, max_running, max_queued from namespace where name > ?1 order by name limit ?2
