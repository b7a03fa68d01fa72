-- What follows a job's runs: the next instant, and what it is computed from.

alter table job add column chain text;                  -- JSON; null without such a schedule
