-- put_capacity: a capacity as it is from now on, and whether that is its end.
insert into capacity (name, ver, deleted, document, changed_at, units, rate_count, rate_us, burst, level, filled_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict (name) do update set ver = excluded.ver, deleted = excluded.deleted, document = excluded.document,
  changed_at = excluded.changed_at, units = excluded.units, rate_count = excluded.rate_count,
  rate_us = excluded.rate_us, burst = excluded.burst, level = excluded.level, filled_at = excluded.filled_at
