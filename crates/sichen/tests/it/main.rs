//! Claims about the whole: real workers, real servers.

#![allow(
    clippy::unwrap_used,
    reason = "a step that can't fail; where one does, the panic says which"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "real processes and streams need real time and tasks of their own"
)]

mod cli;
mod database;
mod demo;
mod failover;
mod fence;
mod outage;
mod program;
mod proxy;
mod scene;
mod session;
