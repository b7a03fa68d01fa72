-- put_namespace: what namespace ?1 may have from now on; its version is the caller's.
insert into namespace (name, ver, weight, max_running, max_queued) values (?1, ?2, ?3, ?4, ?5)
on conflict (name) do update set ver = excluded.ver, weight = excluded.weight, max_running = excluded.max_running,
  max_queued = excluded.max_queued
