//! What happens to a planned run while others of its job are active.
//!
//! # Rules
//! - *Active* are the job's scheduled and manual runs that are not closed. Backfill has a lane of
//!   its own: its runs neither block nor are blocked.
//! - A manual run is never refused for overlap: someone asked for it. It blocks later ones.
//! - Runs of one decision are judged in order, as if each had started before the next was judged.
//!
//! # Invariants
//! - Every refusal names what blocked.
//! - The queue never grows beyond its limit.
//!
//! # Not here
//! When a replaced run is truly over: when its task trees are confirmed dead, or its session's
//! expiry + grace + 5 s has passed (the settle duty).

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

/// Judges the planned runs of one decision, oldest first.
///
/// `active` are the job's active runs, oldest first; `queued` is how many wait already.
pub fn judge<R: Clone>(
    policy: Overlap,
    active: &[R],
    queued: u32,
    planned: &[Timestamp],
) -> Vec<Verdict<R>> {
    let blocker = |first: Option<Timestamp>| match (active.first(), first) {
        (Some(run), _) => Some(Blocker::Run(run.clone())),
        (None, Some(at)) => Some(Blocker::Planned(at)),
        (None, None) => None,
    };
    let mut started = None;
    let mut waiting = queued;
    let mut verdicts = Vec::with_capacity(planned.len());
    for (at, instant) in planned.iter().enumerate() {
        let verdict = match (policy, blocker(started)) {
            (Overlap::Allow, _) => Verdict::Run,
            // Of several that come due together only the newest is worth starting.
            (Overlap::Replace, _) if at + 1 < planned.len() => Verdict::Skip {
                blocked_by: Blocker::Planned(planned[planned.len() - 1]),
            },
            (Overlap::Replace, _) if active.is_empty() => Verdict::Run,
            (Overlap::Replace, _) => Verdict::Replace {
                victims: active.to_vec(),
            },
            (Overlap::Forbid, None) => Verdict::Run,
            (Overlap::Forbid, Some(blocked_by)) => Verdict::Skip { blocked_by },
            (Overlap::Queue { .. }, None) if waiting == 0 => Verdict::Run,
            (Overlap::Queue { limit }, blocked_by) => {
                let behind = blocked_by.unwrap_or(Blocker::Planned(*instant));
                if waiting < limit {
                    waiting += 1;
                    Verdict::Queue {
                        behind,
                        place: waiting,
                    }
                } else {
                    Verdict::Skip { blocked_by: behind }
                }
            }
        };
        if matches!(verdict, Verdict::Run) {
            started.get_or_insert(*instant);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// Whether a run that has waited may still start: the window is judged again, exactly at its end
/// counts as in time. False: skip it with the reason `deadline`.
pub fn may_leave_queue(
    not_before: Timestamp,
    window: Option<SignedDuration>,
    now: Timestamp,
) -> bool {
    window.is_none_or(|window| now.duration_since(not_before) <= window)
}
