//! Jobs, their revisions, and what their schedules have decided.

use jiff::Timestamp;
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Decision, Job};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, Answer, ApplyJob, ApplyVerdict, Fence, JobStore, Op, Page,
};

use super::super::{SqliteStore, jobs, row, sql};

impl JobStore for SqliteStore {
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict> {
        self.write(op, move |tx| jobs::apply(tx, job))
    }
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>> {
        self.read(move |r| r.live_job(&name))
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        self.read(move |r| Ok(r.job(uid)?.map(|row| row.job)))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        self.read(move |r| {
            r.one(sql::GET_REVISION, (row::blob(job.0), revision.0), |row| {
                row.text(0)
            })
        })
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list(r, &page))
    }
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict> {
        self.write(op, move |tx| {
            jobs::set_paused(tx, paused, closing, expected_ver)
        })
    }
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool> {
        self.write(op, move |tx| jobs::delete(tx, job, closing, expected_ver))
    }
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list_due(r, &partitions, until, limit))
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list_outdated(r, &partitions, &data, limit))
    }
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>> {
        bounded!(items);
        self.write(op, move |tx| jobs::advance_all(tx, &fences, items))
    }
    fn list_decisions(
        &self,
        job: JobUid,
        from: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Decision>> {
        self.read(move |r| jobs::list_decisions(r, job, from, limit))
    }
}
