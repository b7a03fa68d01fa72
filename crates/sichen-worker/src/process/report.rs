//! The channel by which a process says how far it is: a named pipe that takes one JSON object a
//! line, so that any language can use it.
//!
//! ```sh
//! echo '{"checkpoint": "id:4711", "done": 4711, "expected": 9000}' >> "$SICHEN_REPORT"
//! ```
//!
//! Keys: `checkpoint` (text), `done`, `expected`, `rate`, `waiting_on`, `result` (any JSON; the last
//! one is the shard's result).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use serde::Deserialize;
use sichen_sdk::{Context, Counters, Waiting};
use tokio::net::unix::pipe;

/// Longest line; a longer one is skipped. (Lines of up to 4,096 bytes never mix with each other.)
const MAX_LINE_BYTES: usize = 384 * 1024;

#[derive(Debug)]
pub(super) struct Report {
    path: PathBuf,
    pipe: pipe::Receiver,
    line: Vec<u8>,
    skipping: bool,
    result: serde_json::Value,
    waiting: Option<Waiting>,
    complained: bool,
}

#[derive(Deserialize)]
struct Line {
    checkpoint: Option<String>,
    done: Option<u64>,
    expected: Option<u64>,
    rate: Option<f64>,
    waiting_on: Option<String>,
    result: Option<serde_json::Value>,
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
            result: serde_json::Value::Null,
            waiting: None,
            complained: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes lines for ever.
    pub(super) async fn pump(&mut self, context: &Context) {
        loop {
            if self.pipe.readable().await.is_err() {
                return std::future::pending().await;
            }
            self.drain(context);
            // A process that only reports still leaves room for its own supervision.
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is there now, up to a bound.
    pub(super) fn drain(&mut self, context: &Context) {
        let mut chunk = [0; 8 * 1024];
        for _ in 0..64 {
            match self.pipe.try_read(&mut chunk) {
                Ok(n) if n > 0 => self.take(&chunk[..n], context),
                _ => return,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8], context: &Context) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            if !std::mem::take(&mut self.skipping) {
                self.on_line(&line, context);
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE_BYTES {
            self.line.clear();
            self.skipping = true;
            self.complain("a line is too long");
        }
    }

    fn on_line(&mut self, line: &[u8], context: &Context) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line: Line = match serde_json::from_slice(line) {
            Ok(line) => line,
            Err(error) => return self.complain(&error.to_string()),
        };
        if let Some(waiting_on) = line.waiting_on {
            self.waiting = None;
            self.waiting = (!waiting_on.is_empty()).then(|| context.waiting_on(&waiting_on));
        }
        let counters = Counters {
            done: line.done,
            expected: line.expected,
            rate: line.rate,
        };
        if let Some(result) = line.result {
            self.result = result;
        }
        match line.checkpoint {
            // Told to stop: what it reports no longer counts.
            Some(checkpoint) => drop(context.checkpoint_now(checkpoint, counters)),
            None => context.count(counters),
        }
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(path = %self.path.display(), why, "a process reports what can't be read");
        }
    }

    pub(super) fn take_result(&mut self) -> serde_json::Value {
        self.waiting = None;
        std::mem::take(&mut self.result)
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
