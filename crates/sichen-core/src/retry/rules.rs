//! Which errors are tried again, and which end the shard, or the run, or nothing at all.
//!
//! # Invariants
//! - The first rule that fits decides; where none fits, the policy and the handler do.
//! - A rule never gives more attempts than the budget has.
//! - A lost attempt is known by how it ended, never by a code: nobody said why.
//!
//! # Not here
//! What follows for the shard ([`crate::lifecycle::shard::on_end`]).

use std::ops::RangeInclusive;

use jiff::SignedDuration;

use crate::lifecycle::AttemptEnd;

/// The most rules of one job.
pub const MAX_RULES: usize = 32;
/// The most exit codes, or error codes, that one rule lists.
pub const MAX_LISTED: usize = 64;
/// The longest error code, in bytes; a worker cuts what is longer.
pub const MAX_CODE_BYTES: usize = 128;
/// What the code of a process that ended by itself begins with.
pub const EXIT_PREFIX: &str = "exit-";

/// What a rule does with an attempt that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another attempt, if the budget has one.
    Retry,
    /// The shard fails, whatever attempts remain.
    FailShard,
    /// The shard fails, and its run is stopped with it.
    FailRun,
    /// The shard succeeds; the error stays on record.
    Ignore,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Exit codes of a process.
    pub exits: Vec<RangeInclusive<u8>>,
    /// Error codes; one that ends in `*` stands for all that begin so.
    pub errors: Vec<String>,
    /// Ends of an attempt: `failed`, `timed_out`, `lost`.
    pub ends: Vec<AttemptEnd>,
    /// What is done.
    pub action: Action,
    /// Wait before the next attempt, in place of the policy's.
    pub delay: Option<SignedDuration>,
}

impl Rule {
    /// Whether the rule speaks of an attempt that ended like this, with this code.
    #[must_use]
    pub fn fits(&self, end: AttemptEnd, code: &str) -> bool {
        if self.ends.contains(&end) {
            return true;
        }
        if end == AttemptEnd::Lost {
            return false;
        }
        let exit = code
            .strip_prefix(EXIT_PREFIX)
            .and_then(|n| n.parse::<u8>().ok());
        exit.is_some_and(|n| self.exits.iter().any(|range| range.contains(&n)))
            || self.errors.iter().any(|wanted| named(wanted, code))
    }
}

/// Whether `wanted`, which may end in `*`, names `code`.
fn named(wanted: &str, code: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => code.starts_with(beginning),
        None => wanted == code,
    }
}
