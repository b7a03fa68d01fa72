//! Claims about the whole: real workers, real servers.

#![allow(
    clippy::unwrap_used,
    reason = "a step that can't fail; where one does, the panic says which"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "real processes and streams need real time and tasks of their own"
)]

mod alerts;
mod alerts_mail;
mod alerts_strain;
mod audit;
mod backfill;
mod backup;
mod calendars;
mod capacities;
mod cli;
mod cluster;
#[cfg(feature = "crash")]
mod crash;
mod data_source;
mod database;
mod dead_letters;
mod demo;
mod deploy;
mod deploy_containers;
mod drill;
mod examples;
mod export;
mod failover;
#[path = "../../../sichen-sdk/tests/it/fake.rs"]
#[expect(dead_code, reason = "shared with the SDK, which uses more of it")]
mod fake;
mod fence;
mod following;
mod guides;
mod import;
#[cfg(feature = "crash")]
mod keyed;
mod live;
mod logs;
mod next;
mod outage;
mod peers;
mod placement;
mod preemption;
mod processes;
mod program;
mod recovered;
mod report;
mod restore;
mod results;
mod scene;
mod secrets;
mod session;
mod several;
mod several_clock;
mod several_database;
mod several_ends;
mod several_history;
mod several_missed;
mod several_slots;
mod several_windows;
mod several_workers;
mod storage;
mod tls;
mod traces;
mod unattended;
mod users;
mod verify;
mod waiting;
mod wall;
