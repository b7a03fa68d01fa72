//! The demo's worker: a program on the SDK with one handler, `settle-ledger`.
//!
//! Everything that a settlement needs is in [`settle_shard`] and [`super::settle`]; the rest lets
//! the director watch and choose a bad moment.
//!
//! # Invariants
//! - While a batch is held, no other thread of the process is inside a transaction: a frozen
//!   process must not keep the business database locked.
//!
//! # Not here
//! Chaos: a worker does not know that it will be killed.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use sichen_sdk::{Context, Counters, DataSource, HandlerError, Worker};

use super::database::{At, Database, postgres};
use super::fence;
use super::protocol::{GO, HOLD, HOLD_OPEN, Line, Notice, OPEN};
use super::settle::{self, Batch, Zoo};

/// The handler's name in the job document.
pub const HANDLER: &str = "settle-ledger";
/// The data source's name in the job document.
pub const DATA_SOURCE: &str = "ledger";

/// Tells a worker where the business database is.
pub const LEDGER_VARIABLE: &str = "SICHEN_DEMO_LEDGER";

/// A worker of the demo (started by `sichen demo`).
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The business database: a SQLite file, or the URL of a PostgreSQL database. In the
    /// environment, because a URL may hold a password.
    #[arg(long, env = LEDGER_VARIABLE, hide_env_values = true)]
    pub ledger: At,
    /// The worker's own data directory.
    #[arg(long)]
    pub data_dir: PathBuf,
    /// Where the server listens for workers.
    #[arg(long)]
    pub server: String,
    /// File with the token that lets a worker join.
    #[arg(long)]
    pub join_token_file: Option<PathBuf>,
    /// Name for people.
    #[arg(long)]
    pub name: String,
    /// Shards that it settles at once.
    #[arg(long, default_value_t = 2)]
    pub slots: u32,
    /// A deliberate mistake.
    #[arg(long)]
    pub zoo: Option<Zoo>,
}

/// Parameters of the job.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Parameters {
    /// Entries a transaction, 1 to 100,000.
    #[serde(default = "default_batch")]
    pub batch: u32,
    /// Pause between two batches.
    #[serde(default)]
    pub pace_ms: u64,
}

fn default_batch() -> u32 {
    settle::BATCH
}

/// Runs the worker until SIGTERM, or until the director's end of stdin is gone.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let floor = Arc::new(Floor::default());
    let orders = Arc::clone(&floor);
    // Not joined: it ends with stdin or with the process.
    std::thread::Builder::new()
        .name("orders".to_owned())
        .spawn(move || orders.obey(std::io::stdin().lock()))?;
    let token = match &args.join_token_file {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("can't read {}", path.display()))?,
        ),
        None => None,
    };
    let shop = Shop {
        ledger: args.ledger.clone(),
        zoo: args.zoo,
        worker: args.name.clone(),
        floor,
    };
    let mut worker = Worker::builder()
        .server(args.server)
        .name(args.name)
        .data_dir(args.data_dir)
        .slots(args.slots)
        .drain_grace_ms(3_000)
        .data_source(DATA_SOURCE, data_source(args.ledger))
        .blocking_handler(HANDLER, move |ctx: Context, parameters: Parameters| {
            settle_shard(&shop, &ctx, parameters)
        });
    if let Some(token) = token {
        worker = worker.join_token(token.trim());
    }
    worker.run().await?;
    Ok(())
}

/// Where the run's bounds are read.
fn data_source(at: At) -> DataSource {
    match at {
        At::File(path) => DataSource::sqlite(path),
        At::Postgres(url) => DataSource::postgres(move || {
            let url = url.clone();
            async move { postgres::connect(&url, postgres::SCHEMA).await }
        }),
    }
}

/// What the handler needs beside its grant.
#[derive(Debug)]
struct Shop {
    ledger: At,
    zoo: Option<Zoo>,
    worker: String,
    floor: Arc<Floor>,
}

/// Settles one shard: open the fence, start behind its checkpoint, batch by batch to the end.
fn settle_shard(
    shop: &Shop,
    ctx: &Context,
    parameters: Parameters,
) -> Result<serde_json::Value, HandlerError> {
    let Some(range) = ctx.int_range() else {
        let message = "this handler settles ranges of ids; give the job a range layout";
        return Err(HandlerError::fatal_run("not-a-range", message));
    };
    let tell = |notice| shop.tell(ctx, notice);
    let database = Database::open(&shop.ledger)
        .map_err(|error| HandlerError::retryable("ledger", error.to_string()))?;
    if ctx.attempt() > 1 {
        shop.floor.hold_open_if_ordered(|| tell(Notice::Granted));
    }
    let turn = shop.floor.turn();
    let opened = fence::open(
        &database,
        ctx.fence_key(),
        ctx.token(),
        Some(range.end.saturating_sub(1)),
    );
    drop(turn);
    let fence = opened.map_err(|error| refused(&tell, None, settle::Error::Fence(error)))?;
    let display = ctx
        .display_checkpoint()
        .and_then(|position| position.parse().ok());
    let upper = fence
        .opened()
        .upper_bound
        .unwrap_or(range.end.saturating_sub(1));
    let mut at = settle::start_after(&fence, display, range.start, shop.zoo);
    tell(Notice::Opened {
        from: range.start,
        upper,
        checkpoint: fence.opened().checkpoint,
        display,
        after: at,
    });
    let (before, left) = settle::count(&database, range.start, at, upper, ctx.run_key())?;
    ctx.count(Counters::done(before).of(before + left));
    let mut done = 0;
    let limit = parameters.batch.clamp(1, 100_000);
    while let Some(batch) = settle::read_batch(&database, at, upper, ctx.run_key(), limit)? {
        ctx.check()?;
        let entries = batch.ids.len() as u64;
        let turn = shop.floor.turn();
        // Between reading and committing: where the director may freeze this process. What follows
        // is committed whatever has happened meanwhile; only the fence can refuse it.
        shop.floor.hold_if_ordered(|| {
            tell(Notice::Holding {
                last_id: batch.last_id(),
                entries,
            });
        });
        let committed = settle::commit_batch(&database, &fence, &batch, shop.zoo);
        drop(turn);
        committed.map_err(|error| refused(&tell, Some(&batch), error))?;
        at = batch.last_id();
        done += entries;
        tell(Notice::Committed {
            checkpoint: at,
            entries,
        });
        // Shown by Sichen. It is a copy: the truth was committed with the batch.
        let counters = Counters::done(before + done).of(before + left.max(done));
        ctx.checkpoint_now(at.to_string(), counters)?;
        pause(ctx, parameters.pace_ms)?;
    }
    tell(Notice::Settled { entries: done });
    Ok(serde_json::json!({ "entries": done }))
}

/// Waits between two batches, and no longer once the attempt is told to stop.
fn pause(ctx: &Context, pace_ms: u64) -> Result<(), HandlerError> {
    if pace_ms > 0 {
        let wait = tokio::time::Duration::from_millis(pace_ms);
        tokio::runtime::Handle::current().block_on(async {
            tokio::select! {
                () = ctx.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        });
    }
    Ok(ctx.check()?)
}

/// A refusal is told and ends the attempt; it is retryable, though by another token.
fn refused(tell: &impl Fn(Notice), batch: Option<&Batch>, error: settle::Error) -> HandlerError {
    if let settle::Error::Fence(fence) = &error
        && let Some(refused) = fence.refused()
    {
        tell(Notice::Refused {
            last_id: batch.map(Batch::last_id),
            database: refused.database.clone(),
        });
        return HandlerError::retryable("stale-token", error.to_string());
    }
    error.into()
}

impl Shop {
    fn tell(&self, ctx: &Context, notice: Notice) {
        let line = Line {
            pid: std::process::id(),
            worker: self.worker.clone(),
            run: ctx.run_key().to_owned(),
            shard: ctx.shard_no(),
            token: ctx.token(),
            attempt: ctx.attempt(),
            notice,
        };
        let Ok(mut text) = serde_json::to_vec(&line) else {
            return;
        };
        text.push(b'\n');
        let mut out = std::io::stdout().lock();
        // Without a director to read it, the work goes on all the same.
        let _ = out.write_all(&text).and_then(|()| out.flush());
    }
}

/// The process's one place for transactions, and the director's hand on it.
#[derive(Debug, Default)]
struct Floor {
    turn: Mutex<()>,
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    hold: bool,
    go: bool,
    hold_open: bool,
}

impl Floor {
    /// Waits until no other thread of this process is in a transaction.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a pending order to hold, announces it and waits for the order to go.
    fn hold_if_ordered(&self, announce: impl FnOnce()) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut orders.hold) {
            return;
        }
        announce();
        while !std::mem::take(&mut orders.go) {
            // The limit is for a director that has gone without a word.
            let waited = self.changed.wait_timeout(orders, Duration::from_mins(2));
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            orders = next;
            if timeout.timed_out() {
                return;
            }
        }
    }

    /// While takeovers are to wait before they open the fence: announces it and waits.
    fn hold_open_if_ordered(&self, announce: impl FnOnce()) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.hold_open {
            announce();
            let wait = Duration::from_mins(2);
            drop(
                self.changed
                    .wait_timeout_while(orders, wait, |orders| orders.hold_open),
            );
        }
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Reads orders until stdin ends, which means that the director is gone: then the worker drains.
    fn obey(&self, input: impl BufRead) {
        for line in input.split(b'\n').map_while(Result::ok) {
            match line.as_slice() {
                line if line == HOLD.trim_ascii_end() => self.order(|orders| orders.hold = true),
                line if line == GO.trim_ascii_end() => self.order(|orders| orders.go = true),
                line if line == HOLD_OPEN.trim_ascii_end() => {
                    self.order(|orders| orders.hold_open = true);
                }
                line if line == OPEN.trim_ascii_end() => {
                    self.order(|orders| orders.hold_open = false);
                }
                _ => {}
            }
        }
        self.order(|orders| {
            *orders = Orders {
                hold: false,
                go: true,
                hold_open: false,
            }
        });
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM);
    }
}
