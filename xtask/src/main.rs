//! Everything about this workspace that is more than one command: `cargo xtask --help`.
//!
//! # Not here
//! Anything the product needs at run time. xtask may print, exit and read the clock; nothing
//! depends on it.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod chart;
mod codegen;
mod console;
mod dist;
mod failover;
mod fuzz;
mod licences;
mod limits;
mod sbom;
mod schema;
mod schemathesis;
mod services;
mod soak;
mod stage;
mod states;
mod test;
mod tidy;
mod workspace;
mod zoo;

#[derive(Debug, Parser)]
#[command(
    name = "xtask",
    about = "Checks, tests and generated files of the Sichen workspace"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the house rules that the compiler can't see
    Tidy,
    /// Build what the tests need, run every test, and close with what was and was not tested
    Test(test::Options),
    /// Show that simulation catches every known-bad variant
    Zoo(zoo::Options),
    /// Do for hours what the tests do in minutes, and write down what ran
    #[command(subcommand)]
    Soak(soak::Kind),
    /// Measure the release build on a throwaway PostgreSQL (docs/benchmarks.md)
    #[command(disable_help_flag = true)]
    Bench(bench::Options),
    /// Measure how long the work of a server that stops, dies or stands still takes to be another's
    Failover(failover::Options),
    /// Search for inputs that break a reader, and keep them under testdata/fuzz
    Fuzz(fuzz::Options),
    /// Draw docs/states.md from the move table
    States {
        /// Change nothing; fail when the page is stale
        #[arg(long)]
        check: bool,
    },
    /// Write docs/schema/job-v1.json from the job document's types
    Schema {
        /// Change nothing; fail when the file is stale
        #[arg(long)]
        check: bool,
    },
    /// Hold the locked dependencies to the licences and bans of deny.toml
    Licences,
    /// Draw docs/limits.md from the `MAX_…` constants
    Limits {
        /// Change nothing; fail when the page is stale
        #[arg(long)]
        check: bool,
    },
    /// Generate, check, test and build the console
    Console(console::Options),
    /// Render the Helm chart with Helm, and judge what comes of it by the schemas of Kubernetes
    Chart(chart::Options),
    /// Build and pack what is handed to others: program, manual, completions, contents, checksums
    Dist(dist::Options),
    /// Ask a running server what its description allows and forbids, and judge the answers by it
    Schemathesis(schemathesis::Options),
    /// Generate the protocol code from the .proto files
    Codegen {
        /// Change nothing; fail when a file is out of date
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Tidy => tidy::run(subcommands()),
        Command::Test(options) => test::run(&options),
        Command::Zoo(options) => zoo::run(&options),
        Command::Soak(kind) => soak::run(&kind),
        Command::Bench(options) => bench::run(&options),
        Command::Failover(options) => failover::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::States { check } => states::run(check),
        Command::Schema { check } => schema::run(check),
        Command::Licences => licences::run(),
        Command::Console(options) => console::run(&options),
        Command::Chart(options) => chart::run(&options),
        Command::Dist(options) => dist::run(&options),
        Command::Schemathesis(options) => schemathesis::run(&options),
        Command::Limits { check } => limits::run(check),
        Command::Codegen { check } => codegen::run(&workspace::root(), check),
    }
}

/// The names that `cargo xtask NAME` accepts; tidy holds the documents to them.
fn subcommands() -> Vec<String> {
    Cli::command()
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect()
}
