//! Jobs, their revisions, and what their schedules have decided.

use jiff::Timestamp;
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Decision, Job};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, Answer, ApplyJob, ApplyVerdict, Fence, JobStore, NewRun, Op, Page,
};

use super::super::kept::Locks;
use super::super::{PostgresStore, jobs, keys_of, namespaces, sql};

impl JobStore for PostgresStore {
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict> {
        write!(self, Some(op), [job], |tx| {
            tx.share_calendars(&job.calendars).await?;
            let there = tx.lock_live_job(&job.name).await?;
            tx.shut_gate(there).await?;
            let closing = job.closing.iter();
            let runs: Vec<&NewRun> = closing.flat_map(|step| &step.runs).collect();
            tx.lock_replaced(&runs).await?;
            let adds = runs.iter().map(|run| run.job).take(1).collect();
            tx.tell_time().await?;
            namespaces::lock_queues(tx, adds).await?;
            jobs::apply(tx, job).await
        })
    }
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>> {
        glance!(self, [name], |read| read.live_job(&name).await)
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        glance!(self, [], |read| Ok(read.job(uid).await?.map(|row| row.job)))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        glance!(self, [], |read| read
            .one(sql::GET_REVISION, (job.0, revision.0), |row| row.text(0))
            .await)
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        read!(self, [page], |read| jobs::list(read, &page).await)
    }
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict> {
        write!(self, Some(op), [closing], |tx| {
            tx.lock_jobs(vec![closing.job.0]).await?;
            let runs = Vec::from_iter(&closing.runs);
            if runs.iter().any(|run| run.is_judged()) {
                tx.shut_gate(Some(closing.job)).await?;
            }
            tx.lock_replaced(&runs).await?;
            let adds = runs.iter().map(|run| run.job).take(1).collect();
            tx.tell_time().await?;
            namespaces::lock_queues(tx, adds).await?;
            jobs::set_paused(tx, paused, closing, expected_ver).await
        })
    }
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool> {
        write!(self, Some(op), [closing], |tx| {
            tx.lock_jobs(vec![job.0]).await?;
            tx.shut_gate(Some(job)).await?;
            let steps = closing.iter();
            let runs: Vec<&NewRun> = steps.flat_map(|step| &step.runs).collect();
            tx.lock_replaced(&runs).await?;
            let adds = runs.iter().map(|run| run.job).take(1).collect();
            tx.tell_time().await?;
            namespaces::lock_queues(tx, adds).await?;
            jobs::delete(tx, job, closing, expected_ver).await
        })
    }
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        glance!(self, [partitions], |read| jobs::list_due(
            read,
            &partitions,
            until,
            limit
        )
        .await)
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        read!(self, [partitions, data], |read| jobs::list_outdated(
            read,
            &partitions,
            &data,
            limit
        )
        .await)
    }
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>> {
        bounded!(items);
        write!(self, Some(op), [fences, items], |tx| {
            let runs: Vec<&NewRun> = items.iter().flat_map(|item| &item.runs).collect();
            let locks = Locks {
                duties: keys_of(&fences),
                jobs: items.iter().map(|item| item.job.0).collect(),
                sessions: runs.iter().filter_map(|run| run.born_leased).collect(),
                ..Locks::default()
            };
            tx.lock_to_write(&locks, &runs).await?;
            namespaces::lock_queues(tx, runs.iter().map(|run| run.job).collect()).await?;
            jobs::advance_all(tx, &fences, items).await
        })
    }
    fn list_decisions(
        &self,
        job: JobUid,
        from: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Decision>> {
        read!(self, [], |read| jobs::list_decisions(
            read, job, from, limit
        )
        .await)
    }
}
