-- Failed attempts of a run whose shards share a budget of them.
alter table run add column failures integer not null default 0 check (failures >= 0);
