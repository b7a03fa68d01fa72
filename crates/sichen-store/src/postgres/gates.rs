//! How jobs stand still while their runs begin and end, and what their rows count of these.
//!
//! A job whose row counts its open runs is locked by whoever opens or closes one. One whose row does not
//! ([`Counting::Never`]) is looked at behind the gate of its partition: many pass a gate at once and leave
//! no version of the row behind. Who changes what they go by, the revision, the
//! deletion, or that the runs are not counted, shuts the gate: waits until those inside have ended their
//! transactions, and lets nobody in until its own has ended.
//!
//! # Invariants
//! - Rows of jobs come before gates, and gates before runs: who waits for a job's row holds no gate.
//! - Behind its gate a job's name, revision, deletion and counting stand still; its mark does not.
//! - A gate belongs to a partition, not to a job: a transaction passes a bounded number of them, as the
//!   server keeps each in a table of a size that is fixed when it starts.
//!
//! # Not here
//! What is counted and when ([`sichen_core::model::Job::counted`]); the other locks ([`super::kept`]).

use std::collections::BTreeSet;

use futures_util::future::{try_join, try_join3};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::model::{Counting, Counts, Job, partition_of};
use sichen_core::port::{MAX_COUNTED_RUNS, NewRun};

use super::kept::{Locks, Turn};
use super::row::{JobRow, int};
use super::sql;
use super::tx::{Read, Result, Tx};

/// What a batch of new runs does with their jobs.
#[derive(Default)]
pub(super) struct Standing {
    /// Jobs that are locked: their marks move, or how many runs they have decides.
    pub locked: Vec<uuid::Uuid>,
    /// Jobs that only stand still.
    pub standing: Vec<JobUid>,
}

impl Standing {
    /// What runs that somebody asked for need. One of a planned instant may change what was decided of it.
    pub fn of(runs: &[NewRun]) -> Self {
        let (mut locked, mut standing) = (BTreeSet::new(), BTreeSet::new());
        for run in runs {
            if run.is_judged() || run.occasion.planned_at().is_some() || run.backfill.is_some() {
                locked.insert(run.job);
            } else {
                standing.insert(run.job);
            }
        }
        standing.retain(|job| !locked.contains(job));
        Self {
            locked: locked.into_iter().map(|job| job.0).collect(),
            standing: standing.into_iter().collect(),
        }
    }
}

impl Tx {
    /// Has the jobs of runs stand still: locks those whose rows count, and passes the gates of the rest.
    pub async fn stand_jobs_of(&self, ids: &[RunId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        for statement in [
            sql::LOCK_COUNTED_JOBS_OF_RUNS,
            sql::PASS_GATES_OF_RUNS,
            sql::GET_JOBS_OF_RUNS,
        ] {
            self.ready(statement).await?;
        }
        let ids: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
        // Polled in this order, and so sent in it.
        let (locked, _, all) = try_join3(
            self.sound(sql::LOCK_COUNTED_JOBS_OF_RUNS, [ids.clone()], |row| {
                row.job()
            }),
            self.all(
                sql::PASS_GATES_OF_RUNS,
                (Turn::Gate as i32, ids.clone()),
                |_| Ok(()),
            ),
            self.sound(sql::GET_JOBS_OF_RUNS, [ids], |row| row.job()),
        )
        .await?;
        self.keep_jobs(locked);
        self.keep_standing(all)
    }

    /// Locks jobs and has others stand still, all that `runs`, which are to be written, need.
    pub async fn stand_jobs(&self, locks: &Locks, runs: &[&NewRun]) -> Result<()> {
        let judged = runs.iter().filter(|run| run.is_judged());
        let judged: BTreeSet<JobUid> = judged.map(|run| run.job).collect();
        let judged: Vec<uuid::Uuid> = judged.into_iter().map(|job| job.0).collect();
        let standing: Vec<uuid::Uuid> = locks.standing.iter().map(|job| job.0).collect();
        if standing.is_empty() && judged.is_empty() {
            return self.lock_jobs(locks.jobs.clone()).await;
        }
        let gates: BTreeSet<u8> = locks
            .standing
            .iter()
            .map(|job| partition_of(*job))
            .collect();
        let gates: Vec<i64> = gates.into_iter().map(i64::from).collect();
        let gates = (Turn::Gate as i32, gates, judged);
        if standing.is_empty() {
            let passed = self.all(sql::PASS_GATES, gates, |_| Ok(()));
            try_join(self.lock_jobs(locks.jobs.clone()), passed).await?;
            return Ok(());
        }
        let both = (locks.jobs.clone(), standing.clone());
        let (locked, _, all) = try_join3(
            self.sound(sql::LOCK_COUNTED_JOBS, both, |row| row.job()),
            self.all(sql::PASS_GATES, gates, |_| Ok(())),
            self.sound(sql::GET_JOBS, [standing], |row| row.job()),
        )
        .await?;
        self.keep_jobs(locked);
        self.keep_standing(all)
    }

    /// Keeps rows that were read behind their gates. If the runs of one began to be counted before its gate
    /// was passed, the whole transaction is for a second try, which locks it.
    fn keep_standing(&self, rows: Vec<JobRow>) -> Result<()> {
        let late = self.kept(|kept| {
            let mut late = None;
            for row in rows {
                if row.job.counting == Counting::Never {
                    kept.jobs.entry(row.job.uid).or_insert(row);
                } else if !kept.jobs.contains_key(&row.job.uid) {
                    late = Some(row.job.name);
                }
            }
            late
        });
        match late {
            None => Ok(()),
            Some(name) => Err(self.anew(format!(
                "the runs of job {name} have just begun to be counted"
            ))),
        }
    }

    /// Shuts the gate of a locked job whose row does not count its runs: none opens or closes from now on.
    pub async fn shut_gate(&self, job: Option<JobUid>) -> Result<()> {
        let open = |job: &JobUid| {
            let counting = |row: &JobRow| row.job.counting == Counting::Never;
            self.kept(|kept| kept.jobs.get(job).is_some_and(counting))
        };
        let Some(job) = job.filter(open) else {
            return Ok(());
        };
        let gate = (Turn::Gate as i32, i32::from(partition_of(job)));
        self.all(sql::SHUT_GATE, gate, |_| Ok(())).await?;
        Ok(())
    }

    /// So many more runs of the job are open, and so many more of them wait for others.
    pub async fn count_active(&self, uid: JobUid, by: i32, waiting: i32) -> Result<()> {
        let kept = self.kept(|kept| kept.jobs.get(&uid).map(|row| Counts::of(&row.job)));
        let now = match kept {
            Some(counts) => Some(counts),
            None => self.job(uid).await?.map(|row| Counts::of(&row.job)),
        };
        let Some(now) = now.filter(|now| now.counting != Counting::Never) else {
            return Ok(());
        };
        // The database refuses to go below none.
        self.gathered(|gathered| {
            gathered.count_active(uid.0, [i64::from(by), i64::from(waiting)]);
        });
        let counts = now.and(by, waiting);
        self.keep_counts(uid, counts);
        if counts.counting == Counting::Never {
            self.set_counts(uid, counts).await?;
        }
        Ok(())
    }

    /// What the job's row says of its open runs from now on.
    pub async fn set_counts(&self, uid: JobUid, counts: Counts) -> Result<()> {
        let params = (uid.0, counts.counting.word(), counts.active, counts.waiting);
        self.must(sql::SET_COUNTING, params).await?;
        self.keep_counts(uid, counts);
        Ok(())
    }

    fn keep_counts(&self, uid: JobUid, counts: Counts) {
        self.kept(|kept| {
            if let Some(row) = kept.jobs.get_mut(&uid) {
                counts.put(&mut row.job);
            }
        });
    }

    /// Counts the open runs of a locked job, whose gate is shut if they were not counted, as its new document
    /// wants it.
    pub async fn recount(&self, uid: JobUid, wanted: bool) -> Result<()> {
        let Some(JobRow { job, .. }) = self.job(uid).await? else {
            return Ok(());
        };
        let counting = Counting::applied(wanted, job.waiting_runs);
        if counting == job.counting {
            return Ok(());
        }
        let open = match job.counting {
            Counting::Never => self.open_of(uid, u32::MAX).await?,
            Counting::WhileWaiting | Counting::Always => job.active_runs,
        };
        self.set_counts(uid, Counts::under(counting, &job, open))
            .await
    }
}

impl Read {
    /// How many runs of a job are open, at most `most`; not those of backfills.
    pub async fn open_of(&self, job: JobUid, most: u32) -> Result<u32> {
        self.count(sql::COUNT_OPEN_RUNS, (job.0, most)).await
    }
}

pub(super) async fn count_open(read: &Read, jobs: &[JobUid]) -> Result<Vec<u32>> {
    let mut counts = Vec::with_capacity(jobs.len());
    for uid in jobs {
        let job: Option<Job> = read.job(*uid).await?.map(|row| row.job);
        counts.push(match job {
            Some(job) if job.counting == Counting::Never => {
                read.open_of(*uid, MAX_COUNTED_RUNS).await?
            }
            Some(job) => job.active_runs,
            None => 0,
        });
    }
    Ok(counts)
}
