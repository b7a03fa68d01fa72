-- Since when a restore is not decided, when the newest event was written that it has left, and its number.
alter table meta add column restored_at bigint;
alter table meta add column restored_mark bigint check ((restored_mark is null) = (restored_at is null));
alter table meta add column restored_newest bigint check ((restored_newest is null) = (restored_at is null));
-- In which installation of PostgreSQL, database and table this was last seen: others mean that it was copied
-- there. On which timeline: a later one means that a standby took over, or that it was recovered to a point in
-- time.
alter table meta add column place text;
alter table meta add column timeline bigint;
