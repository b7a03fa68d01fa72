//! What happens to a planned run while others of its job are active.
//!
//! # Rules
//! - *Active* are the job's scheduled and manual runs that are not closed. Backfill has a lane of
//!   its own: its runs neither block nor are blocked.
//! - A manual run starts whatever is active: someone asked for it. It blocks later ones. Who asks
//!   may name a policy for this one run, and then it is judged like a planned one.
//! - Runs of one decision are judged in order, as if each had started before the next was judged.
//!
//! # Invariants
//! - Every refusal names what blocked.
//! - The queue never grows beyond its limit.
//! - [`judge`] is the one place where this is decided: for the trigger, for people, for previews.
//!
//! # Not here
//! Whose turn comes when a run closes ([`crate::lifecycle::run::turn`]); when a replaced run is
//! truly over ([`crate::lease::dead_by`]).

use jiff::{SignedDuration, Timestamp};

/// A job's policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Both run.
    Allow,
    /// The new one is skipped.
    #[default]
    Forbid,
    /// The active ones are stopped; the new one starts once they are over.
    Replace,
    /// The new one waits, at most so many at once; what comes on top is skipped.
    Queue { limit: u32 },
}

/// Who wants a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Its schedule.
    Planned,
    /// A person or a program, perhaps with a policy for this one run.
    Manual(Option<Overlap>),
    /// A backfill, which has its own lane and limits.
    Backfill,
}

impl Overlap {
    /// The policy that holds for a run of this origin.
    #[must_use]
    pub fn of(self, origin: Origin) -> Overlap {
        match origin {
            Origin::Planned => self,
            Origin::Manual(wanted) => wanted.unwrap_or(Overlap::Allow),
            Origin::Backfill => Overlap::Allow,
        }
    }
}

/// The job's runs that are not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Active<'a, R> {
    /// Those that do not wait for their turn, oldest first; perhaps not all of them, but at least
    /// one if there is any.
    pub runs: &'a [R],
    /// How many they are.
    pub count: u32,
    /// How many wait for their turn.
    pub queued: u32,
}

impl<'a, R> Active<'a, R> {
    /// All of them are known.
    #[must_use]
    pub fn all(runs: &'a [R], queued: u32) -> Self {
        let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        Self {
            runs,
            count,
            queued,
        }
    }
}

/// What stands in the way: an active run, or one planned by the same decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker<R> {
    Run(R),
    Planned(Timestamp),
}

/// What becomes of one planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<R> {
    /// It starts.
    Run,
    /// It is skipped with the reason `overlap`.
    Skip { blocked_by: Blocker<R> },
    /// It starts when these are over; they are to be stopped now.
    Replace { victims: Vec<R> },
    /// It waits; `place` counts from 1.
    Queue { behind: Blocker<R>, place: u32 },
}

/// Judges the planned runs of one decision, oldest first. `most` runs may be active at once, at
/// least 1; [`Overlap::Allow`] knows no such limit, and [`Overlap::Replace`] is for 1.
pub fn judge<R: Clone>(
    policy: Overlap,
    most: u32,
    active: Active<'_, R>,
    planned: &[Timestamp],
) -> Vec<Verdict<R>> {
    let most = most.max(1);
    let mut started: Vec<Timestamp> = Vec::new();
    let mut waiting = active.queued;
    let mut verdicts = Vec::with_capacity(planned.len());
    for (at, instant) in planned.iter().enumerate() {
        let taken = active
            .count
            .saturating_add(u32::try_from(started.len()).unwrap_or(u32::MAX));
        let first = || match (active.runs.first(), started.first()) {
            (Some(run), _) => Blocker::Run(run.clone()),
            (None, at) => Blocker::Planned(at.copied().unwrap_or(*instant)),
        };
        let verdict = match policy {
            Overlap::Allow => Verdict::Run,
            // Of several that come due together only the newest is worth starting.
            Overlap::Replace if at + 1 < planned.len() => Verdict::Skip {
                blocked_by: Blocker::Planned(planned[planned.len() - 1]),
            },
            Overlap::Replace if taken == 0 && waiting == 0 => Verdict::Run,
            Overlap::Replace => Verdict::Replace {
                victims: active.runs.to_vec(),
            },
            Overlap::Forbid if taken.saturating_add(waiting) < most => Verdict::Run,
            Overlap::Forbid => Verdict::Skip {
                blocked_by: first(),
            },
            // No overtaking: who waits already goes first.
            Overlap::Queue { .. } if taken < most && waiting == 0 => Verdict::Run,
            Overlap::Queue { limit } if waiting < limit => {
                waiting += 1;
                Verdict::Queue {
                    behind: first(),
                    place: waiting,
                }
            }
            Overlap::Queue { .. } => Verdict::Skip {
                blocked_by: first(),
            },
        };
        if matches!(verdict, Verdict::Run) {
            started.push(*instant);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// The latest start of a run: its window counts from its planned instant with jitter.
#[must_use]
pub fn start_by(not_before: Timestamp, window: Option<SignedDuration>) -> Option<Timestamp> {
    not_before.checked_add(window?).ok()
}
