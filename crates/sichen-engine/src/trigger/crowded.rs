//! Jobs whose instants wait: their namespaces may queue no more runs, or there is nobody to broadcast to.
//!
//! # Invariants
//! - The mark of such a job stands: its instants are not decided, and none is lost. Its catch-up policy says
//!   what becomes of them once there is room, as after an outage.
//! - It is put off in its row, so that it takes no place of others that are due.
//! - What is kept in mind only makes steps fit; who has forgotten it is told again by the store.
//!
//! # Not here
//! Whether there is room (the store, in the transaction that writes runs).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::JobUid;
use sichen_core::model::{Job, QueueFull};
use sichen_core::name::JobName;
use sichen_core::port::{Advance, Error};

use super::{Pass, Trigger};

/// How long a job is left alone whose namespace has no room.
const CROWDED: SignedDuration = SignedDuration::from_secs(5);
/// Jobs whose room is kept in mind; beyond that all are forgotten, and asked again.
const MAX_CROWDED: usize = 10_000;

/// For how many runs the namespaces of jobs had room when that was less than what was due.
#[derive(Debug, Default)]
pub(super) struct Crowded(Mutex<BTreeMap<JobUid, u32>>);

impl Crowded {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobUid, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how many runs of the job there is room, if that is known; asked once.
    pub(super) fn room(&self, job: JobUid) -> Option<u32> {
        self.lock().remove(&job)
    }

    fn note(&self, job: JobUid, room: u32) {
        let mut rooms = self.lock();
        if rooms.len() >= MAX_CROWDED {
            rooms.clear();
        }
        rooms.insert(job, room);
    }
}

impl Trigger {
    /// Steps that the store did not write, as their namespaces had no room for their runs: where there is some,
    /// a smaller step is made at once, and else the job waits.
    pub(super) async fn wait_for_room(
        &self,
        full: Vec<(Advance, JobName, QueueFull)>,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for (item, name, queue) in full {
            self.context.meter.full("schedule");
            if queue.room() > 0 {
                self.crowded.note(item.job, queue.room());
                pass.next = Some(now);
                continue;
            }
            let QueueFull { most, queued } = queue;
            tracing::debug!(job = %name, most, queued, "planned times wait: the namespace may queue no more runs");
            waiting.push(put_off(&item, now));
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let again = now.checked_add(CROWDED).unwrap_or(now);
        pass.next = pass.next.into_iter().chain([again]).min();
        let (op, fences) = (
            self.context.op(self.coordinator.actor()),
            self.fences_of(&waiting, now),
        );
        // Who was changed meanwhile is looked at by the next pass.
        let put_off = self.context.store.advance_schedules(op, fences, waiting);
        put_off.await.map(drop)
    }
}

/// `job` is looked at again later, and its mark stays.
pub(super) fn later(job: &Job, now: Timestamp) -> Advance {
    Advance {
        next_due: now.checked_add(CROWDED).ok(),
        ..super::postponed(job, now)
    }
}

/// The same of the job of a step that was not written.
fn put_off(item: &Advance, now: Timestamp) -> Advance {
    Advance {
        job: item.job,
        revision: item.revision,
        from: item.from,
        to: item.from,
        next_due: now.checked_add(CROWDED).ok(),
        zones: None,
        pending: item.pending,
        counted: None,
        runs: Vec::new(),
        lengthens: None,
        decisions: Vec::new(),
    }
}
