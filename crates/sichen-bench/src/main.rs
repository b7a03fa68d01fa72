//! `sichen-bench`: measures, or is the worker of a measurement.
//!
//! # Not here
//! Building what is measured (`cargo xtask bench`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::json;
use sichen_bench::measure::{ALL, Bench, Sizes, beside};
use sichen_bench::postgres::{Postgres, SETTINGS};
use sichen_bench::report::{self, Figure};
use sichen_bench::{clock, fleet, worker};

#[derive(Debug, Parser)]
#[command(name = "sichen-bench", about = "Measures Sichen from outside")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure
    Run(Run),
    /// Be the worker of a measurement
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Be many workers of a measurement
    #[command(hide = true)]
    Fleet(FleetArgs),
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Where the database's files lie: a directory on disk, or one in memory such as /dev/shm
    #[arg(long, value_name = "DIR")]
    place: Option<PathBuf>,
    /// The database's files in memory: fsync is free, and figures repeat within a few percent
    #[arg(long, conflicts_with = "place")]
    tmpfs: bool,
    /// Only these measurements
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each is made; all are printed, the table has the medians
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Fail if a figure falls short of its floor
    #[arg(long)]
    check: bool,
    /// Runs in bulk
    #[arg(long, default_value_t = 50_000)]
    runs: u64,
    /// Runs by callers that wait
    #[arg(long, default_value_t = 20_000)]
    acknowledged: u64,
    /// Shards of the large run
    #[arg(long, default_value_t = 100_000)]
    shards: u32,
    /// Jobs that are due at one instant
    #[arg(long, default_value_t = 10_000)]
    due: u64,
    /// Runs of the history that `sichen verify` judges; four events each
    #[arg(long, default_value_t = 250_000)]
    judged: u64,
    /// Minutes for which a foreign transaction stays open (measurement `old`)
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Runs that wait for a later instant (measurement `crowd`)
    #[arg(long, default_value_t = 1_000_000)]
    crowd: u64,
    /// Shards that wait at once beside those that are granted, over 1,000 namespaces
    #[arg(long, default_value_t = 1_000_000)]
    ready: u32,
    /// Seconds of light load, and of idleness
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Attempts at once in the worker
    #[arg(long, default_value_t = 1_000)]
    slots: u32,
    /// The program `sichen` [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    sichen: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct WorkerArgs {
    #[arg(long)]
    server: String,
    #[arg(long)]
    join_token: String,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    slots: u32,
    #[arg(long)]
    wanted: u64,
}

#[derive(Debug, clap::Args)]
struct FleetArgs {
    #[arg(long = "server", required = true)]
    servers: Vec<String>,
    #[arg(long)]
    join_token: String,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    sessions: u32,
    #[arg(long)]
    slots: u32,
    #[arg(long)]
    hold_ms: u64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if std::env::var_os("SICHEN_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_env("SICHEN_LOG");
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
    match carry_out(cli.command) {
        Ok(code) => code,
        Err(error) => {
            report::note(&format!("sichen-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match command {
        Command::Run(run) => runtime.block_on(measure(run)),
        Command::Worker(args) => runtime.block_on(async {
            let WorkerArgs {
                server,
                join_token,
                data,
                slots,
                wanted,
            } = args;
            worker::run(worker::Options {
                server,
                join_token,
                data,
                slots,
                wanted,
            })
            .await?;
            Ok(ExitCode::SUCCESS)
        }),
        Command::Fleet(args) => runtime.block_on(async {
            let hold = Duration::from_millis(args.hold_ms);
            fleet::run(fleet::Options {
                servers: args.servers,
                join_token: args.join_token,
                data: args.data,
                sessions: args.sessions,
                slots: args.slots,
                hold,
            })
            .await?;
            Ok(ExitCode::SUCCESS)
        }),
    }
}

async fn measure(run: Run) -> Result<ExitCode> {
    let memory = PathBuf::from("/dev/shm");
    let place = match run.place {
        Some(place) => place,
        None if run.tmpfs => memory,
        None => std::env::temp_dir(),
    };
    let sizes = Sizes {
        runs: run.runs,
        acknowledged: run.acknowledged,
        shards: run.shards,
        due: run.due,
        judged: run.judged,
        ready: run.ready,
        seconds: run.seconds,
        minutes: run.minutes,
        crowd: run.crowd,
        slots: run.slots,
    };
    let sichen = run.sichen.map_or_else(|| beside("sichen"), Ok)?;
    let postgres = Postgres::start(&place).await?;
    conditions(&place, &sizes)?;
    let bench = Bench {
        postgres,
        sichen,
        place,
        sizes,
    };
    let names: Vec<String> = if run.only.is_empty() {
        ALL.iter().map(|name| (*name).to_owned()).collect()
    } else {
        run.only
    };
    let mut figures: Vec<Figure> = Vec::new();
    for round in 1..=run.rounds {
        for name in &names {
            report::note(&format!("round {round}: {name} …"));
            for figure in bench.measure(name).await? {
                report::line(&figure)?;
                figures.push(figure);
            }
        }
    }
    let medians = medians(figures);
    report::note(&report::table(&medians));
    let short = medians.iter().any(Figure::falls_short);
    Ok(if run.check && short {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The median of each figure, in the order in which they were first measured.
fn medians(figures: Vec<Figure>) -> Vec<Figure> {
    let mut all: Vec<(Figure, Vec<f64>)> = Vec::new();
    for figure in figures {
        match all.iter_mut().find(|(f, _)| f.metric == figure.metric) {
            Some((_, values)) => values.push(figure.value),
            None => all.push((figure.clone(), vec![figure.value])),
        }
    }
    let median = |(mut figure, mut values): (Figure, Vec<f64>)| {
        values.sort_by(f64::total_cmp);
        figure.value = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
        figure
    };
    all.into_iter().map(median).collect()
}

fn conditions(place: &Path, sizes: &Sizes) -> Result<()> {
    report::line(&json!({
        "conditions": {
            "at_us": clock::now_us(),
            "version": env!("CARGO_PKG_VERSION"),
            "cores": std::thread::available_parallelism()?.get(),
            "place": place,
            "postgres": SETTINGS,
            "slots": sizes.slots,
        }
    }))
}
