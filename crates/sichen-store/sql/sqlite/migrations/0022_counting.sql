-- Whether a job's row counts its open runs. Jobs that are there already go on with it until they are edited.
alter table job add column counting text not null default 'always'
  check (counting in ('never', 'while-waiting', 'always') and (counting <> 'never' or active_runs = 0 and waiting_runs = 0));
