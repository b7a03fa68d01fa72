//! How long an attempt and a run may take, and when that is over.
//!
//! # Invariants
//! - A deadline of a run is only ever moved forward to an earlier instant, but by an explicit retry.
//! - A sign of progress moves the end of a stall, never the end of the attempt.
//!
//! # Not here
//! What follows for the shard ([`crate::lifecycle`]); the worker's own judgement (`sichen-sdk`).

use jiff::{SignedDuration, Timestamp};

use crate::lease::KILL_MARGIN;
use crate::model::Shard;

/// The shortest grace that a job may give its attempts: 0 would leave no time to hear of the end.
pub const MIN_STOP_GRACE: SignedDuration = SignedDuration::from_millis(100);
/// The longest grace that a job may give its attempts to stop.
pub const MAX_STOP_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// Whether an attempt whose limit passed at `over` may still be within its `grace`, with time to say
/// how it ended: then nobody ends it from outside.
#[must_use]
pub fn within_grace(over: Timestamp, grace: SignedDuration, now: Timestamp) -> bool {
    let end = over.checked_add(grace.saturating_add(KILL_MARGIN));
    end.is_ok_and(|end| now < end)
}

/// The limits on time of one grant; none where nothing is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Of the attempt.
    pub attempt: Option<SignedDuration>,
    /// Between two signs of progress of the attempt.
    pub stall: Option<SignedDuration>,
    /// Of the run, from its first grant.
    pub active: Option<SignedDuration>,
}

/// Which limit an attempt has overrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// It took too long.
    Attempt,
    /// It gave no sign of progress for too long.
    Stall,
}

impl Overrun {
    /// The code of the failure.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Overrun::Attempt => "attempt-timeout",
            Overrun::Stall => "stalled",
        }
    }
}

impl Timeouts {
    /// When an attempt that is granted at `now` must have ended.
    #[must_use]
    pub fn attempt_until(&self, now: Timestamp) -> Option<Timestamp> {
        after(now, self.attempt)
    }

    /// The deadline of a run that has its first grant at `now` and had `deadline` before.
    #[must_use]
    pub fn deadline(&self, deadline: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        deadline.into_iter().chain(after(now, self.active)).min()
    }
}

/// When a running attempt must have ended, or given a sign: what its row is found by.
#[must_use]
pub fn timeout_at(
    attempt_until: Option<Timestamp>,
    stall: Option<SignedDuration>,
    sign: Timestamp,
) -> Option<Timestamp> {
    attempt_until.into_iter().chain(after(sign, stall)).min()
}

/// The same after a sign that the attempt gave `idle` before `now`; a sign that comes late moves
/// nothing back.
#[must_use]
pub fn after_sign(shard: &Shard, idle: SignedDuration, now: Timestamp) -> Option<Timestamp> {
    let sign = now.checked_sub(idle.max(SignedDuration::ZERO));
    let new = timeout_at(shard.attempt_until, shard.stall, sign.unwrap_or(now));
    new.max(shard.timeout_at)
}

/// Which limit is over if the shard's `timeout_at` has passed.
#[must_use]
pub fn overrun(shard: &Shard) -> Overrun {
    let attempt = shard.attempt_until.is_some() && shard.attempt_until <= shard.timeout_at;
    if attempt || shard.stall.is_none() {
        Overrun::Attempt
    } else {
        Overrun::Stall
    }
}

fn after(at: Timestamp, length: Option<SignedDuration>) -> Option<Timestamp> {
    length.and_then(|length| at.checked_add(length).ok())
}

#[cfg(test)]
mod tests;
