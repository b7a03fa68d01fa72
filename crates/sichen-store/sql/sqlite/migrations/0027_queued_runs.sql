-- How many runs of a namespace may be queued.
alter table namespace add column max_queued integer check (max_queued between 0 and 100000);   -- null: no limit
create index run_queued on run (namespace) where state = 'scheduled';
