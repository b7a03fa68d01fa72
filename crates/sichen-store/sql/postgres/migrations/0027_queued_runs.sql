-- How many runs of a namespace may be queued. The version before does not look at the limit: it writes what it
-- likes, and counts and grants as ever; set the first limit once it has stopped everywhere.
alter table namespace add column max_queued bigint check (max_queued between 0 and 100000);   -- null: no limit
create index namespace_queue_limited on namespace (name) where max_queued is not null;
-- Whether any of them has that limit: read with the clock, so that where there is none nobody asks for it.
alter table meta add column queues_limited boolean not null default false;
create index run_queued on run (namespace) where state = 'scheduled';
