-- lock_queues: those of these namespaces whose queues have a limit: who writes runs counts what is queued.
select name, ver, weight, max_running, max_queued from namespace
where name = any($1::text[]) and max_queued is not null order by name for no key update
