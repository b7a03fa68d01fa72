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
#[cfg(test)]
mod fuzz;
mod live;
mod logging;
mod names;
mod output;
mod serve;
mod store_at;
mod trust;

/// Batches are made by one thread and dropped by another, which glibc's arenas make a server pay for with
/// a quarter of its processor time (docs/benchmarks.md). Its settings are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    sichen_server::tls::use_ring();
    cli::main()
}
