//! The `sichen` program.
//!
//! # Not here
//! Any logic ([`cli`]).

mod cli;
mod client;
mod clock;
mod command;
mod config;
mod data_dir;
#[allow(dead_code, reason = "its command is being written")]
mod demo;
mod failure;
mod live;
mod logging;
mod names;
mod output;
mod serve;
mod store_at;
mod trust;

fn main() -> std::process::ExitCode {
    sichen_server::tls::use_ring();
    cli::main()
}
