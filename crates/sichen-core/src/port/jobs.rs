//! Jobs, their revisions, and what their schedules have decided.

use jiff::Timestamp;

use super::{Advance, AdvanceVerdict, Answer, ApplyJob, ApplyVerdict, Fence, Op, Page};
use crate::ids::{JobUid, Revision};
use crate::model::{Decision, Job};
use crate::name::JobName;

/// Jobs, their revisions, and what their schedules have decided. A part of [`Store`](super::Store).
pub trait JobStore: Send + Sync + 'static {
    /// Creates or changes a job. An edit closes the old revision's instants in its transaction.
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict>;
    /// A live job by name.
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>>;
    /// A job by uid, deleted ones too.
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>>;
    /// The document of one revision.
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>>;
    /// Live jobs by (namespace, name).
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>>;
    /// Pauses or resumes a job's schedules; `closing` decides what lies behind (see
    /// [`ApplyJob::closing`]), `next_due` is the next instant after it.
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict>;
    /// Deletes a job: its name is free again, its history stays. `closing` records what its
    /// schedules leave undecided. False, and nothing written, if its version differs or `closing`
    /// does not hold.
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool>;
    /// Live, unpaused jobs of these partitions whose next instant is not after `until`, soonest
    /// first, at most `limit`.
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>>;
    /// Live, unpaused jobs of these partitions whose mark was set by zone data older than `data`, at
    /// most `limit`; see [`crate::schedule::zones`]. None while time is held.
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>>;
    /// Moves high-water marks and writes the runs and decisions in between.
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>>;
    /// Decisions of a job whose `to` is not before `from`, those that end first before others.
    fn list_decisions(&self, job: JobUid, from: Timestamp, limit: u32)
    -> Answer<'_, Vec<Decision>>;
}
