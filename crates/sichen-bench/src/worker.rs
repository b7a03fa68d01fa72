//! The worker process: one handler that does nothing but note when it started.
//!
//! Says what happens as JSON lines: `ready`, `first`, `handled` at the n-th, and on SIGTERM `lat`
//! with the lateness of each start in microseconds.
//!
//! # Not here
//! Who starts it ([`crate::process`]).

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use sichen_sdk::{Context, Worker};

use crate::clock::now_us;

/// What the handler is told.
#[derive(Debug, Default, Deserialize)]
struct Told {
    /// When its lateness counts from.
    #[serde(default)]
    from_us: Option<i64>,
}

#[derive(Debug)]
struct Recorder {
    wanted: u64,
    started: AtomicU64,
    late_us: Mutex<Vec<i64>>,
}

impl Recorder {
    fn start(&self, from_us: Option<i64>) {
        let now = now_us();
        if let Some(from) = from_us {
            let mut late = self.late_us.lock().unwrap_or_else(PoisonError::into_inner);
            late.push(now - from);
        }
        let n = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        if n == 1 {
            say(&json!({ "ev": "first", "t": now }));
        }
        if n == self.wanted {
            say(&json!({ "ev": "handled", "t": now }));
        }
    }
}

/// Writes one JSON line.
#[expect(
    clippy::print_stdout,
    reason = "the lines are what the program is read by"
)]
pub fn say(line: &Value) {
    println!("{line}");
    // A reader that is gone needs no lines.
    let _ = std::io::stdout().flush();
}

/// What a worker is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: String,
    /// What proves that it may join.
    pub join_token: String,
    /// Its data directory.
    pub data: PathBuf,
    /// Attempts at once.
    pub slots: u32,
    /// Starts after which it says `handled`.
    pub wanted: u64,
}

/// Runs until SIGTERM.
///
/// # Errors
/// If the worker ends otherwise than by being drained.
pub async fn run(options: Options) -> Result<()> {
    let recorder = Arc::new(Recorder {
        wanted: options.wanted,
        started: AtomicU64::new(0),
        late_us: Mutex::default(),
    });
    let seen = recorder.clone();
    let worker = Worker::builder()
        .server(options.server)
        .join_token(options.join_token)
        .data_dir(options.data)
        .slots(options.slots)
        .handler("noop", move |context: Context, told: Told| {
            seen.start(told.from_us.or(context.planned_at_us()));
            std::future::ready(Ok(()))
        })
        .build()?;
    worker.run().await?;
    let late = recorder.late_us.lock();
    let late = late.unwrap_or_else(PoisonError::into_inner).clone();
    let n = recorder.started.load(Ordering::Relaxed);
    say(&json!({ "ev": "lat", "n": n, "lat": late }));
    Ok(())
}
