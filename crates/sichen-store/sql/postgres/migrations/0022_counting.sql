-- Whether a job's row counts its open runs. Jobs that are there already go on with it until they are edited.
-- Not safe beside a server of the version before: that would count runs of jobs that this version has applied, and
-- their ends would be refused. Stop those first.
alter table job add column counting text collate "C" not null default 'always'
  check (counting in ('never', 'while-waiting', 'always') and (counting <> 'never' or active_runs = 0 and waiting_runs = 0));
