//! What a pool's owner remembers for placement: what is used of workers' resources, whose turn it was,
//! and where jobs fail.
//!
//! # Invariants
//! - What is used is the sum of what is held: there is no number that could differ from it for long.
//! - Everything is bounded by what is held, by the sessions there are, or by a limit of its own.
//!
//! # Not here
//! The choice (`super::seats`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::blame::Blame;
use super::{Candidate, Resources, Terms};
use crate::ids::{JobUid, SessionId, ShardKey};

/// Jobs whose last worker is remembered, for those that go round.
const MAX_TURNS: usize = 10_000;

/// The memory of one pool.
#[derive(Clone, Debug, Default)]
pub struct Places {
    held: BTreeMap<ShardKey, (SessionId, Arc<Terms>)>,
    used: BTreeMap<SessionId, Resources>,
    /// Sessions that hold more than is known here.
    unsure: BTreeSet<SessionId>,
    workers: BTreeMap<SessionId, u64>,
    turns: BTreeMap<JobUid, SessionId>,
    pub(super) blame: Blame,
    wanted: bool,
}

impl Places {
    /// These sessions are there now.
    pub fn meet(&mut self, candidates: &[Candidate]) {
        let met = candidates.iter().map(|c| (c.session, c.worker));
        self.workers = met.collect();
    }

    /// A shard was granted under these terms.
    pub fn granted(&mut self, key: ShardKey, session: SessionId, terms: &Arc<Terms>) {
        self.ended(key);
        if !terms.needs.is_empty() {
            self.used.entry(session).or_default().add(&terms.needs);
            self.held.insert(key, (session, terms.clone()));
        }
    }

    /// A shard is held no longer.
    pub fn ended(&mut self, key: ShardKey) {
        let Some((session, terms)) = self.held.remove(&key) else {
            return;
        };
        if let Some(used) = self.used.get_mut(&session) {
            used.take(&terms.needs);
            if used.is_empty() {
                self.used.remove(&session);
            }
        }
    }

    /// An attempt of `job` on `session` ended, failed or not.
    pub fn judged(&mut self, job: JobUid, session: SessionId, failed: bool, now: Timestamp) {
        let Some(worker) = self.workers.get(&session) else {
            return;
        };
        if failed {
            self.blame.failed(job, *worker, now);
        } else {
            self.blame.succeeded(job, *worker, now);
        }
    }

    /// Whether no job has failed anywhere of late.
    #[must_use]
    pub fn is_blameless(&self) -> bool {
        self.blame.is_empty()
    }

    /// Whether the job has failed anywhere of late.
    #[must_use]
    pub fn is_blamed(&self, job: JobUid) -> bool {
        self.blame.has(job)
    }

    /// What is used of a session's resources; `None` if that is not known.
    pub(super) fn used(&self, session: SessionId) -> Option<Resources> {
        let known = !self.unsure.contains(&session);
        known.then(|| self.used.get(&session).cloned().unwrap_or_default())
    }

    /// What is used of sessions' resources, of those of which anything is.
    #[must_use]
    pub fn uses(&self) -> &BTreeMap<SessionId, Resources> {
        &self.used
    }

    /// What `session` holds is not known in full, or it is again.
    pub fn set_unsure(&mut self, session: SessionId, unsure: bool) {
        if unsure {
            self.unsure.insert(session);
        } else {
            self.unsure.remove(&session);
        }
    }

    /// Forgets sessions that are gone.
    pub fn keep(&mut self, there: impl Fn(&SessionId) -> bool) {
        self.unsure.retain(&there);
    }

    /// Sessions of which it must be known what they hold before anything can be given to them that asks
    /// for resources; none while nothing does.
    #[must_use]
    pub fn asks_of(&self) -> Vec<SessionId> {
        match self.wanted {
            true => self.unsure.iter().copied().collect(),
            false => Vec::new(),
        }
    }

    /// Whether anything that was offered to the last plan asks for resources.
    pub(super) fn set_wanted(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// Who had the last turn of a job that goes round.
    pub(super) fn turn(&self, job: JobUid) -> Option<SessionId> {
        self.turns.get(&job).copied()
    }

    pub(super) fn took_turn(&mut self, job: JobUid, session: SessionId) {
        if self.turns.len() >= MAX_TURNS && !self.turns.contains_key(&job) {
            self.turns.pop_first();
        }
        self.turns.insert(job, session);
    }
}
