-- Overlap and deadlines. A run may wait for others of its job, and says what it stands for in the words of
-- its schedule.

alter table job add column waiting_runs integer not null default 0
  check (waiting_runs between 0 and active_runs);

alter table run add column nominal text;                -- JSON: wall-clock time, zone, civil days
alter table run add column waits text check (waits in ('queue', 'replaced'));
alter table run add column waits_most integer check ((waits is null) = (waits_most is null));
alter table run add column ready_at integer;
alter table run add column dead_by integer;           -- task trees that nobody confirmed dead are gone by then
alter table run add column stop_detail text not null default '';
alter table run add column start_by integer;          -- latest first grant

create index run_open on run (job_uid, id) where ended_at is null;
create index run_waiting on run (job_uid, id) where waits is not null;
create index run_start_by on run (start_by)
  where start_by is not null and started_at is null and ended_at is null and stop_cause is null;
