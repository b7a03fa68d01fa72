//! How long a right to act lasts, and when its holder must stop by itself.
//!
//! # Invariants
//! - A holder's own deadline lies before the instant at which the store may grant again, as long as
//!   its clock runs at most 10 % too slow.
//! - An expired session is never renewed.
//! - Of one worker only a later registration takes the place of an earlier one.
//!
//! # Not here
//! Which clock (the store's for expiry, the holder's boot clock for its own deadline); what happens
//! to a shard whose lease ended ([`crate::lifecycle`]).

use jiff::{SignedDuration, Timestamp};

use crate::model::Appearance;

/// Whether a registration was overtaken by the `newest` one of its worker: it was on its way, or in a
/// server that stood still, while the worker had given it up. To register it would end the session
/// that the worker lives in.
#[must_use]
pub fn is_outdated(asked: Appearance, newest: Option<Appearance>) -> bool {
    newest.is_some_and(|newest| asked <= newest)
}

/// The times of a session: how often its holder beats, and how long one beat lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// From one beat to the next.
    pub beat: SignedDuration,
    /// How long a session lives after a beat was taken.
    pub ttl: SignedDuration,
}

/// Why a rhythm was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SC1310: a session of {ttl:?} with a beat of {beat:?} is lost by one late beat; \
     the session must be at least three beats and longer than its safety margin"
)]
pub struct Insane {
    /// The refused session length.
    pub ttl: SignedDuration,
    /// The refused beat.
    pub beat: SignedDuration,
}

impl Rhythm {
    /// Workers: beat 3 s, session 15 s.
    pub const WORKER: Rhythm = Rhythm {
        beat: SignedDuration::from_secs(3),
        ttl: SignedDuration::from_secs(15),
    };
    /// Server nodes: beat 1 s, lease 5 s.
    pub const NODE: Rhythm = Rhythm {
        beat: SignedDuration::from_secs(1),
        ttl: SignedDuration::from_secs(5),
    };

    /// Checks that a session outlasts three beats and the holder's safety margin.
    ///
    /// # Errors
    /// [`Insane`] names both values.
    pub fn checked(self) -> Result<Self, Insane> {
        let Rhythm { beat, ttl } = self;
        let sane = beat > SignedDuration::ZERO
            && beat.checked_mul(3).is_some_and(|three| ttl >= three)
            && ttl
                .checked_sub(self.margin())
                .is_some_and(|rest| rest > beat);
        if sane {
            Ok(self)
        } else {
            Err(Insane { ttl, beat })
        }
    }

    /// From one beat to the next while nobody waits for the lease to end: half as long again, if three of
    /// them fit into it.
    #[must_use]
    pub fn beat_alone(self) -> SignedDuration {
        let longer = self.beat + self.beat / 2;
        let fits = longer.checked_mul(3).is_some_and(|three| three <= self.ttl);
        if fits { longer } else { self.beat }
    }

    /// What the holder gives away for safety: 10 % of the session and 500 ms.
    #[must_use]
    pub fn margin(self) -> SignedDuration {
        self.ttl / 10 + SignedDuration::from_millis(500)
    }
}

/// From TERM to KILL, when a worker is told to stop an attempt.
pub const STOP_GRACE: SignedDuration = SignedDuration::from_secs(10);
/// From KILL until the last process of the tree is gone.
pub const KILL_MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// When nothing of an attempt can still be alive that nobody has confirmed dead: its holder begins
/// to kill it by `over_at`, the end of its session or timeout. A frozen host is the exception; what
/// it does when it thaws carries an old token.
#[must_use]
pub fn dead_by(over_at: Timestamp) -> Timestamp {
    over_at
        .checked_add(STOP_GRACE + KILL_MARGIN)
        .unwrap_or(Timestamp::MAX)
}

/// Whether a right that lasts until `expires_at` has ended at `now` (the store's clock).
///
/// At the very instant of expiry it has ended: a holder counts less, never more.
#[must_use]
pub fn has_expired(expires_at: Timestamp, now: Timestamp) -> bool {
    now >= expires_at
}

#[cfg(test)]
mod tests;
