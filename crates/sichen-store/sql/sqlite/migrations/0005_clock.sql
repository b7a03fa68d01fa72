-- Whether the clock stepped ahead of what is believed, and how often such a step was accepted.
alter table meta add column clock_held integer not null default 0 check (clock_held in (0, 1));
alter table meta add column clock_accepts integer not null default 0 check (clock_accepts >= 0);
