-- Since when a restore is not decided, when the newest event was written that it has left, and its number.
alter table meta add column restored_at integer;
alter table meta add column restored_mark integer check ((restored_mark is null) = (restored_at is null));
alter table meta add column restored_newest integer check ((restored_newest is null) = (restored_at is null));
