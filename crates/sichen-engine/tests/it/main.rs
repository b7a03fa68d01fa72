//! Claims about the duties, stepped by hand on the memory store.

#![allow(
    clippy::unwrap_used,
    reason = "the fixture's steps can't fail; where one does, the panic says which"
)]

mod alerts;
mod audit;
mod backfill;
mod births;
mod broadcast;
mod calendar_day;
mod calendars;
mod capacities;
mod cases;
mod explain;
mod fair;
mod fixture;
mod flow;
mod follow;
mod forecast;
mod gathered;
mod limits;
mod overlap;
mod paced;
mod peers;
mod placed;
mod players;
mod preempt;
mod queues;
mod retry;
mod sharding;
mod spoilt;
mod takeover;
mod terms;
mod timeouts;
mod timing;
mod together;
mod traces;
mod wide;
