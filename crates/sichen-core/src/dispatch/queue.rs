//! Where a run stands among the waiting work of its pool, and how a bounded part of it is read.
//!
//! Waiting work is kept in the order (namespace and lane, priority, job, run). A [`Walk`] goes along an index
//! in that order and steps over what a [`Window`] leaves out, so that reading heads costs as much as there are
//! heads, however many shards wait behind them. Stores keep the order as two numbers
//! ([`Place::queue`], [`Place::turn`]).
//!
//! # Invariants
//! - Every lane of every namespace has its part of a window; a lane's window has its first job, and at most
//!   half of what is left goes to one priority, so that no other is hidden.
//! - Two namespaces (or jobs) whose numbers are equal by chance share a part of a window. Shares are counted by
//!   name; so are limits, but for PostgreSQL's, where two such namespaces (a pair in 4·10¹²) would count
//!   together, and so never run more than they may.
//!
//! # Not here
//! Who goes first among the heads ([`super::fair`]); the index (stores).

use std::ops::Bound;

use crate::ids::{BackfillId, JobUid, RunId};
use crate::model::Run;
use crate::name::Name;

/// Runs that their schedules, people or programs asked for; and those of backfills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Runs as they fall due or are asked for.
    Live,
    /// Runs of backfills.
    Backfill,
}

impl Lane {
    /// The lane of a run of this backfill, or of none.
    #[must_use]
    pub fn of(backfill: Option<BackfillId>) -> Self {
        match backfill {
            None => Lane::Live,
            Some(_) => Lane::Backfill,
        }
    }

    /// `live`, `backfill`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Lane::Live => "live",
            Lane::Backfill => "backfill",
        }
    }
}

/// Bits of a queue's number that tell the priority.
const RANK_BITS: u32 = 11;
const RANK_MASK: i64 = (1 << RANK_BITS) - 1;
/// Priorities go from −1,000 to 1,000.
const RANK_ZERO: i32 = 1_000;

/// A place in the order of waiting work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Namespace, lane and priority in one number.
    pub queue: i64,
    /// The job.
    pub turn: i64,
    /// The run.
    pub run: RunId,
}

impl Place {
    /// Before every other.
    pub const FIRST: Self = Self {
        queue: -1,
        turn: -1,
        run: RunId(0),
    };

    /// The place of `run`.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self {
            queue: run.queue_in(run.backfill),
            turn: turn(run.job),
            run: run.id,
        }
    }

    /// The lane, as a number of its own.
    #[must_use]
    pub fn lane(&self) -> i64 {
        self.queue >> RANK_BITS
    }

    fn end_of_lane(self) -> Self {
        Self {
            queue: self.queue | RANK_MASK,
            ..self.end_of_queue()
        }
    }

    fn end_of_queue(self) -> Self {
        Self {
            turn: i64::MAX,
            ..self.end_of_turn()
        }
    }

    fn end_of_turn(self) -> Self {
        Self {
            run: RunId(i64::MAX as u64),
            ..self
        }
    }
}

/// The number of a namespace's lane at one priority: those of one lane are neighbours, the highest priority
/// first.
#[must_use]
pub fn queue(namespace: &Name, lane: Lane, priority: i32) -> i64 {
    let rank = RANK_ZERO.saturating_sub(priority).clamp(0, 2 * RANK_ZERO);
    let lane = i64::from(lane == Lane::Backfill);
    (number(namespace.as_str()) << (RANK_BITS + 1)) | (lane << RANK_BITS) | i64::from(rank)
}

/// The first and the last number that a namespace's queues have.
#[must_use]
pub fn queues_of(namespace: &Name) -> (i64, i64) {
    let first = number(namespace.as_str()) << (RANK_BITS + 1);
    (first, first | (1 << RANK_BITS) | RANK_MASK)
}

/// The number of a job within a queue.
#[must_use]
pub fn turn(job: JobUid) -> i64 {
    let mut buffer = uuid::Uuid::encode_buffer();
    let text = job.0.simple().encode_lower(&mut buffer);
    // The second half of it: the first may be a time.
    number(&text[16..])
}

/// A number below 2^42 of a text. Simple, for the migrations of two databases compute it too; a product
/// stays below 2^62.
fn number(text: &str) -> i64 {
    const PRIME: i64 = (1 << 42) - 11;
    text.bytes()
        .fold(7, |h, byte| (h * 1_000_003 + i64::from(byte) + 1) % PRIME)
}

/// How much of the waiting work is read at once, in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In all.
    pub total: u32,
    /// Of a namespace's lane.
    pub lane: u32,
    /// Of a job, in one lane and priority.
    pub job: u32,
}

impl Window {
    /// What is read besides, from where the last such walk ended: so all that windows leave out has its turn.
    pub const ROUND: Self = Self {
        total: 200,
        lane: 100,
        job: 4,
    };
    /// One look, or plan, in so many walks so.
    pub const ROUND_EACH: u32 = 4;

    /// A window of `total` runs over so many lanes and jobs.
    #[must_use]
    pub fn over(total: u32, lanes: u32, jobs: u32) -> Self {
        let lanes = lanes.max(1);
        // Two, so that a lower priority is seen.
        let lane = (total / lanes).max(2);
        // Half of it may be one priority's, and one more job than was met is to be seen in that.
        let jobs = jobs.div_ceil(lanes).saturating_add(1);
        let job = (lane / 2 / jobs).max(1);
        Self { total, lane, job }
    }
}

/// How many lanes and jobs were met last; the next window follows from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    lanes: u32,
    jobs: u32,
}

impl Seen {
    /// A window for at most `total` runs. A quarter is spare, so that one more lane is seen too.
    #[must_use]
    pub fn window(&self, total: u32) -> Window {
        Window {
            total,
            ..Window::over(total - total / 4, self.lanes, self.jobs)
        }
    }

    /// Lanes met.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Notes what a walk has met. Whether it ended before it had seen all lanes and the window, which is now
    /// as narrow as can be, would show more.
    pub fn note(&mut self, walk: &Walk) -> bool {
        let again = walk.is_full() && (walk.window.lane > 2 || walk.window.job > 1);
        (self.lanes, self.jobs) = if again {
            (u32::MAX, u32::MAX)
        } else {
            walk.met()
        };
        again
    }
}

/// One walk along the order.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    window: Window,
    at: Place,
    total: u32,
    lane: u32,
    rank: u32,
    job: u32,
    /// The most of this priority.
    most: u32,
    /// Whether something may have been stepped over.
    cut: bool,
    lanes: u32,
    jobs: u32,
}

impl Walk {
    /// Begins behind `after`.
    #[must_use]
    pub fn new(window: Window, after: Place) -> Self {
        Self {
            window,
            at: after,
            total: 0,
            lane: 0,
            rank: 0,
            job: 0,
            most: window.lane,
            cut: false,
            lanes: 0,
            jobs: 0,
        }
    }

    /// The place behind which the next run is looked for; `None` at the end of the window.
    #[must_use]
    pub fn bound(&self) -> Option<Place> {
        if self.total >= self.window.total {
            return None;
        }
        Some(if self.lane >= self.window.lane {
            self.at.end_of_lane()
        } else if self.rank >= self.most {
            self.at.end_of_queue()
        } else if self.job >= self.window.job {
            self.at.end_of_turn()
        } else {
            self.at
        })
    }

    /// The first run behind the bound is at `place`.
    pub fn took(&mut self, place: Place) {
        let (at, window) = (self.at, self.window);
        if place.lane() != at.lane() {
            self.lane = 0;
        }
        if place.queue != at.queue {
            let left = window.lane - self.lane;
            self.most = (left - left / 2).max(1);
            self.rank = 0;
        }
        if (place.queue, place.turn) != (at.queue, at.turn) {
            self.job = 0;
            self.jobs += 1;
        }
        self.lanes += u32::from(self.lane == 0);
        self.total += 1;
        self.lane += 1;
        self.rank += 1;
        self.job += 1;
        self.at = place;
        self.cut |= self.total >= window.total
            || self.lane >= window.lane
            || self.rank >= self.most
            || self.job >= window.job;
    }

    /// Whether there may be runs that the window left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the walk ended before the end of the order.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.total >= self.window.total
    }

    /// Lanes and jobs met.
    #[must_use]
    pub fn met(&self) -> (u32, u32) {
        (self.lanes, self.jobs)
    }

    /// The last place.
    #[must_use]
    pub fn at(&self) -> Place {
        self.at
    }

    /// Walks along what is in memory.
    pub fn along<V>(
        mut self,
        waiting: &std::collections::BTreeMap<Place, V>,
        mut offered: impl FnMut(&V) -> bool,
    ) -> (Vec<&V>, Self) {
        let mut found = Vec::new();
        let mut passed = self.at;
        while let Some(bound) = self.bound() {
            let behind = (Bound::Excluded(bound.max(passed)), Bound::Unbounded);
            let Some((place, value)) = waiting.range(behind).next() else {
                break;
            };
            passed = *place;
            if offered(value) {
                self.took(*place);
                found.push(value);
            }
        }
        (found, self)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
