-- Failed attempts of a run whose shards share a budget of them. A constant default rewrites nothing, and the check
-- is asked of new rows alone.
alter table run add column failures integer not null default 0;
alter table run add constraint run_failures_from_zero check (failures >= 0) not valid;
