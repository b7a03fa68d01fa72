//! Workers on which a job keeps failing: they come last for it, for a while.
//!
//! Each failed attempt adds a mark, a success takes half of them away, and so does each [`HALF_LIFE`]. One
//! failure moves nobody: only from two on a worker stands behind others. If a job fails everywhere, all
//! stand behind alike and nothing changes.
//!
//! # Invariants
//! - A worker is put behind and never shut out: where it is the only one, it is asked again.
//! - At most [`MAX_MARKS`] are kept; the faintest goes first.
//!
//! # Not here
//! Retries (`crate::retry`): how often a shard is tried is not changed by any of this.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::ids::JobUid;

/// After so long half of what is held against a worker is forgotten.
pub const HALF_LIFE: SignedDuration = SignedDuration::from_mins(5);
/// Pairs of job and worker that are remembered in one pool.
pub const MAX_MARKS: usize = 10_000;
/// What a failed attempt adds.
const FAILED: u64 = 1_000;
/// What stands for one level; a worker that has less is like any other.
const LEVEL: u64 = 1_500;
/// The most that is held against a worker: three levels, forgotten in some ten minutes.
const MOST: u64 = 3 * LEVEL + FAILED;
/// Less is forgotten.
const LEAST: u64 = 125;

/// What is held against workers, by job.
#[derive(Clone, Debug, Default)]
pub struct Blame {
    marks: BTreeMap<(JobUid, u64), Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    score: u64,
    at: Timestamp,
}

impl Mark {
    fn score(&self, now: Timestamp) -> u64 {
        let gone = now.duration_since(self.at).as_secs().max(0);
        let (halves, rest) = (gone / HALF_LIFE.as_secs(), gone % HALF_LIFE.as_secs());
        let Some(score) = u32::try_from(halves)
            .ok()
            .and_then(|n| self.score.checked_shr(n))
        else {
            return 0;
        };
        let rest = u64::try_from(rest).unwrap_or(0);
        let half = u64::try_from(HALF_LIFE.as_secs()).unwrap_or(1);
        score - score * rest / half / 2
    }
}

impl Blame {
    /// Whether nothing is held against anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Pairs of job and worker that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether anything is, of this job.
    #[must_use]
    pub fn has(&self, job: JobUid) -> bool {
        let mut of = self.marks.range((job, 0)..=(job, u64::MAX));
        of.next().is_some()
    }

    /// An attempt of `job` failed on `worker`.
    pub fn failed(&mut self, job: JobUid, worker: u64, now: Timestamp) {
        let before = self.marks.get(&(job, worker)).map_or(0, |m| m.score(now));
        let score = (before + FAILED).min(MOST);
        self.marks.insert((job, worker), Mark { score, at: now });
        if self.marks.len() > MAX_MARKS {
            self.forget(now);
        }
    }

    /// One succeeded.
    pub fn succeeded(&mut self, job: JobUid, worker: u64, now: Timestamp) {
        let Some(mark) = self.marks.get_mut(&(job, worker)) else {
            return;
        };
        *mark = Mark {
            score: mark.score(now) / 2,
            at: now,
        };
        if mark.score < LEAST {
            self.marks.remove(&(job, worker));
        }
    }

    /// How far behind others `worker` stands for `job`: 0 (not at all) to 3.
    #[must_use]
    pub fn level(&self, job: JobUid, worker: u64, now: Timestamp) -> u8 {
        let score = self.marks.get(&(job, worker)).map_or(0, |m| m.score(now));
        u8::try_from(score / LEVEL).unwrap_or(3)
    }

    fn forget(&mut self, now: Timestamp) {
        self.marks.retain(|_, mark| mark.score(now) >= LEAST);
        while self.marks.len() > MAX_MARKS {
            let faintest = self.marks.iter().min_by_key(|(_, mark)| mark.score(now));
            let Some(key) = faintest.map(|(key, _)| *key) else {
                break;
            };
            self.marks.remove(&key);
        }
    }
}
