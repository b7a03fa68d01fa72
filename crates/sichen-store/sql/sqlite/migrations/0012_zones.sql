-- What a job's zones were taken for at its mark.

alter table job add column zones text;                  -- JSON; null where no instant depends on a zone
-- It begins with the version of the zone data: {"data":"2026a"
create index job_zones on job (substr(zones, 1, 15), uid)
  where zones is not null and paused = 0 and deleted_at is null;
