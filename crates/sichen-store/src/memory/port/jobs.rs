//! Jobs, their revisions, and what their schedules have decided.

use jiff::Timestamp;
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Decision, Job};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, Answer, ApplyJob, ApplyVerdict, Fence, JobStore, Op, Page,
};

use super::super::{MemoryStore, jobs};

impl JobStore for MemoryStore {
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict> {
        self.write(op, move |tx| jobs::apply(tx, job))
    }
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>> {
        self.read(move |s, _| s.live_job(&name).map(|j| j.job.clone()))
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        self.read(move |s, _| s.jobs.get(&uid).map(|j| j.job.clone()))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        self.read(move |s, _| s.jobs.get(&job)?.revisions.get(&revision).cloned())
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        self.read(move |s, _| jobs::list(s, &page))
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
        self.read(move |s, _| jobs::list_due(s, &partitions, until, limit as usize))
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |s, _| jobs::list_outdated(s, &partitions, &data, limit as usize))
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
        self.read(move |s, _| {
            let of_job = s
                .decisions
                .iter()
                .filter(|(uid, d)| *uid == job && d.to >= from);
            let mut decisions: Vec<Decision> = of_job.map(|(_, d)| d.clone()).collect();
            decisions.sort_by_key(|d| (d.to, d.from));
            decisions.truncate(limit as usize);
            decisions
        })
    }
}
