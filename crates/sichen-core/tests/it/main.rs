//! Claims about the rules, from the outside.

mod fuzz;
mod schedule_calendar;
mod schedule_catch_up;
mod schedule_cron_cases;
mod schedule_cronjob_cases;
mod schedule_due;
mod schedule_explain;
mod schedule_overlap;
mod schedule_text;
