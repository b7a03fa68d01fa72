//! What time it is for a store, made of a clock that may step and one that never does.
//!
//! A reading of the wall clock is taken as it is while it keeps within [`MAX_STEP`] of the monotonic
//! time that has passed. A clock that steps further ahead is not believed: time is then *held*, goes on
//! by the monotonic clock alone, and what is planned by the wall clock waits until somebody accepts the
//! step. So leases and sessions are judged by the time that has really passed, and no run fires for an
//! instant that may not have come.
//!
//! # Invariants
//! - Time never goes back; while the wall clock is behind it stands still.
//! - Who starts anew, or was asleep, believes what others have used ([`Kept::mark`]).
//! - A held clock stays held over a restart ([`Kept::held`]) until it is accepted, or is right again.
//!
//! # Not here
//! Reading clocks; keeping the row (`sichen-store`).

pub mod standstill;

use jiff::{SignedDuration, Timestamp};

/// Under which key of a duty the log keeps what happened to the store's clock.
pub const CLOCK_KEY: &str = "clock";

/// The furthest a clock may step ahead at once; beyond it time is held.
pub const MAX_STEP: SignedDuration = SignedDuration::from_secs(30);
/// How far the wall clock may be behind the time before that is called a step: what several processes
/// have used differs by less.
pub const MAX_BEHIND: SignedDuration = SignedDuration::from_secs(2);
/// After so long a new anchor is set, so that a slow drift of the two clocks is no step.
const ANCHOR_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Both clocks, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The store's wall clock.
    pub wall: Timestamp,
    /// The monotonic clock, from whichever beginning.
    pub elapsed: SignedDuration,
}

/// What the store keeps of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// An instant that was used; later ones may have been used since.
    pub mark: Timestamp,
    /// Whether time is held.
    pub held: bool,
    /// How often a step was accepted.
    pub accepts: u32,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            mark: Timestamp::MIN,
            held: false,
            accepts: 0,
        }
    }
}

/// The time, and what is wrong with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The store's time.
    pub now: Timestamp,
    /// What the wall clock said.
    pub wall: Timestamp,
    /// By the monotonic clock alone, from whichever beginning: only what lies between two readings of
    /// one process means anything.
    pub steady: Timestamp,
    /// Whether the wall clock is ahead of what is believed.
    pub held: bool,
}

/// How the wall clock stands to the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It is believed.
    #[default]
    Right,
    /// It stepped ahead, and is not believed.
    Ahead,
    /// It stepped back: time stands still until it has caught up.
    Behind,
}

impl Told {
    /// How the wall clock stands to the time.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.held {
            Standing::Ahead
        } else if self.now.duration_since(self.wall) > MAX_BEHIND {
            Standing::Behind
        } else {
            Standing::Right
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    accepts: u32,
    at: Timestamp,
    elapsed: SignedDuration,
}

/// Keeps the time of a store in one process.
#[derive(Debug, Default)]
pub struct Timekeeper {
    anchor: Option<Anchor>,
    last: Option<Timestamp>,
}

impl Timekeeper {
    /// The time by `reading`, where the store has kept `kept`.
    pub fn read(&mut self, reading: Reading, kept: &Kept) -> Told {
        let anchor = self.anchor(reading, kept);
        let passed = reading.elapsed.saturating_sub(anchor.elapsed);
        let steady = later(anchor.at, passed);
        // What others have used is as good as what has passed here.
        let others = Some(kept.mark).filter(|mark| self.last.is_none_or(|last| *mark > last));
        let known = steady.max(others.unwrap_or(Timestamp::MIN));
        let held = reading.wall > later(known, MAX_STEP);
        let believed = if held { known } else { reading.wall };
        let now = [Some(believed), Some(kept.mark), self.last];
        let now = now.into_iter().flatten().max().unwrap_or(believed);
        self.last = Some(now);
        let asleep = others.is_some_and(|mark| mark > later(steady, MAX_STEP));
        if !held && (passed > ANCHOR_LIFE || asleep) {
            self.anchor = Some(Anchor {
                at: now,
                elapsed: reading.elapsed,
                ..anchor
            });
        }
        Told {
            now,
            wall: reading.wall,
            steady,
            held,
        }
    }

    /// The time by the monotonic clock alone, not before what was told last; `None` before the first
    /// reading. For a store that reads its clock where this keeper can't look, and judges a step by it
    /// as [`Timekeeper::read`] would.
    #[must_use]
    pub fn steady(&self, elapsed: SignedDuration) -> Option<Timestamp> {
        let anchor = self.anchor?;
        let steady = later(anchor.at, elapsed.saturating_sub(anchor.elapsed));
        Some(self.last.map_or(steady, |last| last.max(steady)))
    }

    /// The anchor in force. A new one believes the wall clock, unless time is held.
    fn anchor(&mut self, reading: Reading, kept: &Kept) -> Anchor {
        match self.anchor {
            Some(anchor) if anchor.accepts == kept.accepts => anchor,
            _ => *self.anchor.insert(Anchor {
                accepts: kept.accepts,
                at: if kept.held {
                    kept.mark
                } else {
                    reading.wall.max(kept.mark)
                },
                elapsed: reading.elapsed,
            }),
        }
    }
}

fn later(t: Timestamp, by: SignedDuration) -> Timestamp {
    t.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
