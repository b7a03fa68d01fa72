//! What happened, folded into one number: two runs of one seed must agree on it.
//!
//! # Not here
//! The store's own history (its event log).

use std::fmt::{self, Write as _};

/// FNV-1a over everything that was written to it; keeps the lines as well if asked to.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// Lines kept at most.
const MAX_LINES: usize = 2_000_000;

struct Sink<'a>(&'a mut u64);

impl fmt::Write for Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            *self.0 = (*self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}

impl Trace {
    /// An empty trace; `keep` its lines for a failure's report.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: keep.then(Vec::new),
        }
    }

    /// Adds a line.
    pub fn line(&mut self, at_us: i64, what: &impl fmt::Debug) {
        // Writing to memory does not fail.
        let _ = write!(Sink(&mut self.hash), "{at_us} {what:?}");
        if let Some(lines) = &mut self.lines
            && lines.len() < MAX_LINES
        {
            let line = serde_json::json!({ "at_us": at_us, "what": format!("{what:?}") });
            lines.push(line.to_string());
        }
    }

    /// The number.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines as JSON, if they were kept.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
