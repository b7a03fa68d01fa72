//! Reads the logs of servers and workers: what a drill does not expect fails it.
//!
//! # Not here
//! What each drill expects ([`crate::catalogue`]).

use serde::Serialize;

use crate::drill::Expected;

/// Unexpected lines that are kept; the rest is counted.
pub const MAX_KEPT: usize = 50;
/// Characters of a line that is kept.
const MAX_LINE: usize = 400;

/// A line of level WARN or ERROR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Whose log.
    pub of: String,
    /// The line.
    pub text: String,
}

/// What the logs have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Lines of those levels that the drill expects.
    pub expected: u64,
    /// Those that it does not, the first of them.
    pub unexpected: Vec<Line>,
    /// How many there are.
    pub unexpected_count: u64,
}

impl Found {
    /// Takes one log in.
    pub fn read(&mut self, of: &str, log: &str, expects: &[&[Expected]]) {
        for text in log.lines().filter(|line| is_alarm(line)) {
            if expects
                .iter()
                .copied()
                .flatten()
                .any(|e| text.contains(e.part))
            {
                self.expected += 1;
                continue;
            }
            self.unexpected_count += 1;
            if self.unexpected.len() < MAX_KEPT {
                let text = text.chars().take(MAX_LINE).collect();
                self.unexpected.push(Line {
                    of: of.to_owned(),
                    text,
                });
            }
        }
    }
}

/// Whether a line is of level WARN or ERROR, or a panic.
fn is_alarm(line: &str) -> bool {
    // `2026-11-30T02:40:25.000000Z  WARN target: …`
    let level = line.split_whitespace().nth(1);
    matches!(level, Some("WARN" | "ERROR")) || line.contains("panicked at")
}

#[cfg(test)]
mod tests;
