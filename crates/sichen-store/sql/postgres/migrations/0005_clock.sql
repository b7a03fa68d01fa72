-- Whether the clock stepped ahead of what is believed, and how often such a step was accepted.
alter table meta add column clock_held boolean not null default false;
alter table meta add column clock_accepts bigint not null default 0 check (clock_accepts >= 0);
