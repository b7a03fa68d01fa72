//! What a process says of itself, and the channel for it that any language can use: a named pipe
//! that takes one JSON object a line.
//!
//! ```sh
//! echo '{"checkpoint": "id:4711", "done": 4711, "expected": 9000}' >> "$SICHEN_REPORT"
//! ```
//!
//! Keys: `checkpoint` (text), `done`, `expected`, `rate`, `waiting_on`, `result` (any JSON; the last
//! one is the shard's result).
//!
//! # Not here
//! The channel that answers (`channel`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::stat::Mode;
use serde::Deserialize;
use sichen_sdk::{Context, Counters, Stopped, Waiting};
use tokio::net::unix::pipe;

/// Longest line; a longer one is skipped. (Lines of up to 4,096 bytes never mix with each other.)
pub(super) const MAX_LINE_BYTES: usize = 384 * 1024;

/// Reads of the pipe at one go; what is left waits for the next.
const MAX_READS: usize = 64;

/// What a process says in one line.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) checkpoint: Option<String>,
    pub(super) done: Option<u64>,
    pub(super) expected: Option<u64>,
    pub(super) rate: Option<f64>,
    pub(super) waiting_on: Option<String>,
    /// Null is a result too, and none is not null.
    #[serde(default, deserialize_with = "some")]
    pub(super) result: Option<serde_json::Value>,
}

fn some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(from).map(Some)
}

/// What an attempt has said so far, by whichever channel.
#[derive(Debug, Default)]
pub(super) struct Said {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    result: serde_json::Value,
    waiting: Option<Waiting>,
}

impl Said {
    /// Hands it on.
    ///
    /// # Errors
    /// A checkpoint of an attempt that was told to stop: it does not count.
    pub(super) fn take(&self, line: Line, context: &Context) -> Result<(), Stopped> {
        let mut inner = self.inner();
        if let Some(waiting_on) = line.waiting_on {
            inner.waiting = None;
            inner.waiting = (!waiting_on.is_empty()).then(|| context.waiting_on(&waiting_on));
        }
        if let Some(result) = line.result {
            inner.result = result;
        }
        let counters = Counters {
            done: line.done,
            expected: line.expected,
            rate: line.rate,
        };
        match line.checkpoint {
            Some(checkpoint) => context.checkpoint_now(checkpoint, counters)?,
            None => context.count(counters),
        }
        Ok(())
    }

    /// The shard's result; nothing is waited on any more.
    pub(super) fn end(&self) -> serde_json::Value {
        std::mem::take(&mut *self.inner()).result
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The named pipe.
#[derive(Debug)]
pub(super) struct Report {
    path: PathBuf,
    pipe: pipe::Receiver,
    line: Vec<u8>,
    skipping: bool,
    complained: bool,
}

impl Report {
    pub(super) fn open(path: &Path) -> io::Result<Report> {
        let _ = fs::remove_file(path);
        nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Open for both, so that it never ends while writers come and go.
        let pipe = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(path)?;
        Ok(Report {
            path: path.to_owned(),
            pipe,
            line: Vec::new(),
            skipping: false,
            complained: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes lines for ever.
    pub(super) async fn pump(&mut self, said: &Said, context: &Context) {
        loop {
            if self.pipe.readable().await.is_err() {
                return std::future::pending().await;
            }
            self.drain(said, context);
            // A process that only reports still leaves room for its own supervision.
            tokio::task::yield_now().await;
        }
    }

    /// Nobody writes any more: takes what is left, also a line without its end.
    pub(super) fn end(&mut self, said: &Said, context: &Context) {
        let mut chunk = [0; 8 * 1024];
        // Asks the kernel itself: the runtime may not have heard yet that there is something.
        for _ in 0..MAX_READS {
            match nix::unistd::read(&self.pipe, &mut chunk) {
                Ok(n) if n > 0 => self.take(&chunk[..n], said, context),
                _ => break,
            }
        }
        self.take(b"\n", said, context);
    }

    /// Takes what is there now, up to a bound.
    fn drain(&mut self, said: &Said, context: &Context) {
        let mut chunk = [0; 8 * 1024];
        for _ in 0..MAX_READS {
            match self.pipe.try_read(&mut chunk) {
                Ok(n) if n > 0 => self.take(&chunk[..n], said, context),
                _ => return,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8], said: &Said, context: &Context) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if !std::mem::take(&mut self.skipping) {
                self.on_line(&line, said, context);
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE_BYTES {
            self.line.clear();
            self.skipping = true;
            self.complain("a line is too long");
        }
    }

    fn on_line(&mut self, line: &[u8], said: &Said, context: &Context) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice(line) {
            // Told to stop: what it reports no longer counts.
            Ok(line) => drop(said.take(line, context)),
            Err(error) => self.complain(&error.to_string()),
        }
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(path = %self.path.display(), why, "a process reports what can't be read");
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
