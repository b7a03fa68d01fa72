-- note_limits: whether any namespace has a limit of what it runs, and any of what it queues.
update meta set
  limited = (select name from namespace where max_running is not null order by name limit 1) is not null,
  queues_limited = (select name from namespace where max_queued is not null order by name limit 1) is not null
where id = 1
