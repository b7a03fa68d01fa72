//! Many workers in one process, each with a session, a stream and a journal of its own.
//!
//! Says `ready` when all were started and, on SIGTERM, `turns`: how long each slot stood empty between an
//! attempt's end and the next one's start, in microseconds. A slot is its worker's own only if it has one.
//!
//! # Not here
//! Who starts it ([`crate::process`]), what the figures mean (`crate::measure`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use sichen_sdk::{Context, Worker};
use tokio::task::JoinSet;

use crate::clock::now_us;
use crate::worker::say;

/// Turns that are kept.
const MAX_TURNS: usize = 1_000_000;
/// How long attempts may go on after SIGTERM: they are thrown away with their database.
const DRAIN_MS: u64 = 2_000;

/// What a fleet is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers.
    pub servers: Vec<String>,
    /// What proves that its workers may join.
    pub join_token: String,
    /// Above their data directories.
    pub data: PathBuf,
    /// Workers.
    pub sessions: u32,
    /// Attempts at once in each.
    pub slots: u32,
    /// How long an attempt takes.
    pub hold: Duration,
}

/// When slots stood empty, and for how long.
type Turns = Arc<Mutex<Vec<i64>>>;

/// Runs until SIGTERM.
///
/// # Errors
/// If a worker ends otherwise than by being drained.
pub async fn run(options: Options) -> Result<()> {
    let turns = Turns::default();
    let mut all = JoinSet::new();
    for n in 0..options.sessions {
        all.spawn(worker(&options, n, turns.clone())?.run());
    }
    say(&json!({ "ev": "ready" }));
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    let turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    say(&json!({ "ev": "turns", "turns": *turns }));
    Ok(())
}

fn worker(options: &Options, n: u32, turns: Turns) -> Result<Worker> {
    let name = format!("worker-{n}");
    let (hold, ended) = (options.hold, Arc::new(AtomicI64::new(0)));
    let mut worker = Worker::builder()
        .join_token(&options.join_token)
        .data_dir(options.data.join(&name))
        .name(name)
        .slots(options.slots)
        .drain_grace_ms(DRAIN_MS);
    for server in &options.servers {
        worker = worker.server(server);
    }
    let worker = worker.handler("noop", move |_: Context, _: serde_json::Value| {
        let (turns, ended) = (turns.clone(), ended.clone());
        async move {
            let before = ended.load(Ordering::Relaxed);
            if before > 0 {
                let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
                if turns.len() < MAX_TURNS {
                    turns.push(now_us() - before);
                }
            }
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            ended.store(now_us(), Ordering::Relaxed);
            Ok(())
        }
    });
    Ok(worker.build()?)
}
