//! When a failed shard is tried again.
//!
//! # Invariants
//! - A delay is never negative and never above the policy's `max`.
//! - Every started attempt counts against `max_attempts` except one that ended `released`.
//! - The first of the rules that fits decides; a rule gives no attempt beyond the budget.
//!
//! # Not here
//! Whether a shard may be retried at all ([`crate::lifecycle`]); retries of store calls (engine).

mod rules;

use jiff::{SignedDuration, Timestamp};

use crate::ids::ShardKey;
use crate::lifecycle::AttemptEnd;

pub use rules::{Action, EXIT_PREFIX, MAX_CODE_BYTES, MAX_LISTED, MAX_RULES, Rule};

/// The most that a job may give as its runs' shared budget of failed attempts.
pub const MAX_RUN_FAILURES: u32 = 10_000_000;

/// How long to wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backoff {
    /// Always the same delay.
    Fixed {
        /// The delay.
        delay: SignedDuration,
    },
    /// `base × factor^(n−1)`, at most `max`.
    Exponential {
        /// Delay after the first attempt.
        base: SignedDuration,
        /// Growth from attempt to attempt, 1 to 100.
        factor: f64,
        /// Longest delay.
        max: SignedDuration,
        /// Whether the delay is drawn evenly from 0 to that value ("full jitter").
        jitter: bool,
    },
}

/// A job's retry policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Started attempts in one budget, 1 to 1,000.
    pub max_attempts: u32,
    /// Failed attempts in one round of a run, all its shards together, 1 to [`MAX_RUN_FAILURES`]; the
    /// last of them stops the run. `None`: no limit.
    pub max_failures: Option<u32>,
    /// The wait between them.
    pub backoff: Backoff,
    /// What is done about particular errors; the first that fits decides.
    pub rules: Vec<Rule>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            max_failures: None,
            backoff: Backoff::Exponential {
                base: SignedDuration::from_secs(1),
                factor: 2.0,
                max: SignedDuration::from_mins(5),
                jitter: true,
            },
            rules: Vec::new(),
        }
    }
}

impl Policy {
    /// The first rule that speaks of an attempt that ended like this, with this code, and its place
    /// among the rules.
    #[must_use]
    pub fn rule(&self, end: AttemptEnd, code: &str) -> Option<(usize, &Rule)> {
        let mut rules = self.rules.iter().enumerate();
        rules.find(|(_, rule)| rule.fits(end, code))
    }

    /// What was decided by the rule at `place`, in words for the record of the attempt.
    #[must_use]
    pub fn remark(&self, place: usize) -> Option<String> {
        let what = match self.rules.get(place)?.action {
            Action::Retry => return None,
            Action::FailShard => "fails the shard",
            Action::FailRun => "fails the run",
            Action::Ignore => "ignores it",
        };
        Some(format!("retry.rules[{place}] {what}"))
    }

    /// The instant before which attempt `used + 1` may not start, after `used` attempts of the
    /// budget (at least 1) have ended at `now`.
    ///
    /// The jitter is a hash of the shard and the attempt, so that replaying gives the same answer
    /// and shards that failed together do not come back together.
    #[must_use]
    pub fn ready_at(&self, shard: ShardKey, used: u32, now: Timestamp) -> Timestamp {
        now.checked_add(self.delay(shard, used))
            .unwrap_or(Timestamp::MAX)
    }

    /// The delay after `used` attempts (at least 1).
    #[must_use]
    pub fn delay(&self, shard: ShardKey, used: u32) -> SignedDuration {
        match self.backoff {
            Backoff::Fixed { delay } => delay.max(SignedDuration::ZERO),
            Backoff::Exponential {
                base,
                factor,
                max,
                jitter,
            } => {
                let power = i32::try_from(used.saturating_sub(1)).unwrap_or(i32::MAX);
                let seconds = (base.as_secs_f64() * factor.max(1.0).powi(power))
                    .clamp(0.0, max.as_secs_f64().max(0.0));
                let share = if jitter { unit_hash(shard, used) } else { 1.0 };
                SignedDuration::try_from_secs_f64(seconds * share).unwrap_or(max)
            }
        }
    }
}

/// A number in [0, 1) that depends on nothing but its arguments (SplitMix64's finalizer).
fn unit_hash(shard: ShardKey, used: u32) -> f64 {
    let mut x = shard.run.0 ^ (u64::from(shard.no.0.cast_unsigned()) << 32) ^ u64::from(used);
    for _ in 0..2 {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a f64 exactly")]
    let unit = (x >> 11) as f64 / (1u64 << 53) as f64;
    unit
}

#[cfg(test)]
mod tests;
