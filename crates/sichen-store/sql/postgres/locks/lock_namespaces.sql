-- lock_namespaces: those of these namespaces that have a limit: who grants counts what they hold.
select name, ver, weight, max_running, max_queued from namespace
where name = any($1::text[]) and max_running is not null order by name for no key update
