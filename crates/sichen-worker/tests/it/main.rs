//! The worker with real processes, against a scripted server.
#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "drives real processes")]

mod cases;
mod environment;
#[path = "../../../sichen-sdk/tests/it/fake.rs"]
#[expect(dead_code, reason = "shared with the SDK, which uses more of it")]
mod fake;
mod fuzz;
mod kill;
mod output;
mod process;
mod report;
