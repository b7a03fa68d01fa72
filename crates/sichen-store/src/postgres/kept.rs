//! Locks, in the port's order, and the rows under them.
//!
//! A use case locks what it will decide upon before it reads the clock: duties, calendars, jobs, gates,
//! runs, shards, sessions, namespaces with a limit, capacities, each by ascending key. What opens and closes
//! no run locks no job. A locked row is kept, so that the rules need not ask for it again.
//!
//! What opens and closes runs of a job whose row does not count them does not lock the row either, so that
//! it neither waits for others of the job nor leaves versions of the row ([`super::gates`]).
//!
//! # Invariants
//! - A row is kept only while its lock is held; a change of it is made here too, or the kept row is
//!   forgotten.
//! - A locked row that makes no sense is not kept: whoever needs it fails when it asks for it.
//!
//! # Not here
//! Which rows a use case locks: its call in [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{try_join_all, try_join3};
use jiff::Timestamp;
use sichen_core::dispatch::queue::Place;
use sichen_core::ids::{JobUid, NodeId, RunId, SessionId, ShardKey};
use sichen_core::lifecycle::{RunState, WaitsFor};
use sichen_core::model::{Run, Session};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Error, MAX_BATCH, NewRun};
use sichen_core::schedule::follow::Chain;
use sichen_core::schedule::zones::Zones;

use super::row::{DutyRow, JobRow, Row, ShardRow, int};
use super::sql;
use super::tx::{Result, Tx};

/// Rows whose locks this transaction holds.
#[derive(Default)]
pub(super) struct Kept {
    pub jobs: BTreeMap<JobUid, JobRow>,
    pub runs: BTreeMap<RunId, Arc<Run>>,
    pub shards: BTreeMap<ShardKey, ShardRow>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub duties: BTreeMap<String, DutyRow>,
    /// Runs of occasions of locked jobs, and that there is none.
    pub occasions: BTreeMap<JobUid, BTreeMap<String, Option<(RunId, String)>>>,
    /// How many shards of a pool a locked session holds.
    pub held: BTreeMap<SessionId, (Name, u32)>,
    /// How many shards of a locked run are held.
    pub running: BTreeMap<RunId, u32>,
}

/// What a use case locks before it reads the clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    /// Duties, kept as they are.
    pub duties: Vec<String>,
    /// Whether the jobs of the runs stand still too, before them: where a run may close.
    pub closing: bool,
    /// Runs whose jobs are limited: those are locked, so that one transaction at a time counts.
    pub limited: Vec<RunId>,
    pub runs: Vec<RunId>,
    pub shards: Vec<ShardKey>,
    pub jobs: Vec<uuid::Uuid>,
    /// Jobs that are to stand still only: runs of them are written beside others.
    pub standing: Vec<JobUid>,
    pub sessions: Vec<SessionId>,
}

impl Locks {
    /// The runs of `shards`, and these.
    pub fn of_shards(shards: Vec<ShardKey>) -> Self {
        let mut runs: Vec<RunId> = shards.iter().map(|key| key.run).collect();
        runs.sort_unstable();
        runs.dedup();
        Self {
            runs,
            shards,
            ..Self::default()
        }
    }

    /// The statements that lock them.
    pub fn statements(&self) -> impl Iterator<Item = &'static str> {
        [
            (!self.duties.is_empty(), sql::SHARE_DUTIES),
            (!self.limited.is_empty(), sql::LOCK_JOBS_OF_RUNS),
            (self.closing, sql::LOCK_COUNTED_JOBS_OF_RUNS),
            (self.closing, sql::PASS_GATES_OF_RUNS),
            (self.closing, sql::GET_JOBS_OF_RUNS),
            (!self.jobs.is_empty(), sql::LOCK_JOBS),
            (!self.standing.is_empty(), sql::LOCK_COUNTED_JOBS),
            (!self.standing.is_empty(), sql::GET_JOBS),
            (!self.runs.is_empty(), sql::LOCK_RUNS),
            (!self.shards.is_empty(), sql::LOCK_SHARDS),
            (!self.sessions.is_empty(), sql::LOCK_SESSIONS),
        ]
        .into_iter()
        .filter_map(|(used, statement)| used.then_some(statement))
    }
}

/// Whether a new run takes the place of those that are open.
pub(super) fn replaces(run: &NewRun) -> bool {
    run.waits
        .is_some_and(|waits| waits.what == WaitsFor::Replaced)
}

/// Ids, queues and turns of places.
pub(super) fn columns(places: &[Place]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let ids = places.iter().map(|place| int(place.run.0)).collect();
    let queues = places.iter().map(|place| place.queue).collect();
    (ids, queues, places.iter().map(|place| place.turn).collect())
}

impl Tx {
    /// Locks duties: against change by others, or (`shared`) against any.
    pub async fn lock_duties(&self, keys: Vec<String>, shared: bool) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let statement = if shared {
            sql::SHARE_DUTIES
        } else {
            sql::LOCK_DUTIES
        };
        let rows = self
            .all(statement, [keys], |row| Ok((row.text(0)?, row.duty()?)))
            .await?;
        self.kept(|kept| kept.duties.extend(rows));
        Ok(())
    }

    /// Locks those duties against change that nobody holds a lock on.
    pub async fn lock_free_duties(&self, keys: Vec<String>) -> Result<()> {
        let of = |row: Row<'_>| Ok((row.text(0)?, row.duty()?));
        let rows = self.all(sql::LOCK_FREE_DUTIES, [keys], of).await?;
        self.kept(|kept| kept.duties.extend(rows));
        Ok(())
    }

    pub async fn lock_jobs(&self, uids: Vec<uuid::Uuid>) -> Result<()> {
        if !uids.is_empty() {
            let rows = self.sound(sql::LOCK_JOBS, [uids], |row| row.job()).await?;
            self.keep_jobs(rows);
        }
        Ok(())
    }

    pub(super) fn keep_jobs(&self, rows: Vec<JobRow>) {
        let rows = rows.into_iter().map(|row| (row.job.uid, row));
        self.kept(|kept| kept.jobs.extend(rows));
    }

    /// Locks runs, and has their jobs stand still before them: who closes a run decides what that lets go.
    pub async fn lock_runs(&self, ids: &[RunId]) -> Result<()> {
        self.stand_jobs_of(ids).await?;
        self.lock_run_rows(ids).await
    }

    /// Locks the jobs of runs.
    pub async fn lock_jobs_of(&self, ids: &[RunId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
        let jobs = self
            .sound(sql::LOCK_JOBS_OF_RUNS, [ids], |row| row.job())
            .await?;
        self.keep_jobs(jobs);
        Ok(())
    }

    /// Locks runs alone: for what neither opens nor closes any.
    pub async fn lock_run_rows(&self, ids: &[RunId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
        let rows = self.sound(sql::LOCK_RUNS, [ids], |row| row.run()).await?;
        let rows = rows.into_iter().map(|run| (run.id, Arc::new(run)));
        self.kept(|kept| kept.runs.extend(rows));
        Ok(())
    }

    /// The open runs of a job, newest first, as many as one run replaces.
    pub async fn open_runs(&self, job: JobUid) -> Result<Vec<RunId>> {
        let params = (i64::MAX, int(MAX_BATCH as u64), job.0);
        self.all(sql::LIST_OPEN_RUNS, params, |row| Ok(RunId(row.u64(0)?)))
            .await
    }

    /// Locks the runs whose place is taken by these new ones of locked jobs: under a job's lock none is
    /// opened and none closes.
    pub async fn lock_replaced(&self, runs: &[&NewRun]) -> Result<()> {
        let runs = runs.iter().filter(|run| replaces(run));
        let jobs: BTreeSet<JobUid> = runs.map(|run| run.job).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let open = try_join_all(jobs.into_iter().map(|job| self.open_runs(job)));
        self.lock_run_rows(&open.await?.concat()).await
    }

    pub async fn lock_shards(&self, keys: &[ShardKey]) -> Result<Vec<SessionId>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let runs: Vec<i64> = keys.iter().map(|key| int(key.run.0)).collect();
        let numbers: Vec<i64> = keys.iter().map(|key| i64::from(key.no.0)).collect();
        let rows = self
            .sound(sql::LOCK_SHARDS, (runs, numbers), |row| row.shard())
            .await?;
        let holders = rows.iter().filter_map(|row| row.shard.session).collect();
        let rows = rows.into_iter().map(|row| (row.shard.key, row));
        self.kept(|kept| kept.shards.extend(rows));
        Ok(holders)
    }

    pub async fn lock_sessions(&self, ids: &[SessionId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
        let rows = self
            .sound(sql::LOCK_SESSIONS, [ids], |row| row.session())
            .await?;
        let rows = rows.into_iter().map(|session| (session.id, session));
        self.kept(|kept| kept.sessions.extend(rows));
        Ok(())
    }

    /// Adds what became of shards to a run's counters.
    pub fn count_run(&self, id: RunId, by: [i64; 4]) {
        self.gathered(|gathered| gathered.count_run(int(id.0), by));
        self.kept(|kept| {
            let Some(run) = kept.runs.get_mut(&id) else {
                return;
            };
            let c = &mut Arc::make_mut(run).counters;
            let add = |n: u32, by: i64| {
                let by = i32::try_from(by).unwrap_or(i32::MAX);
                n.checked_add_signed(by)
            };
            match (
                add(c.open, by[0]),
                add(c.succeeded, by[1]),
                add(c.failed, by[2]),
                add(c.cancelled, by[3]),
            ) {
                (Some(open), Some(succeeded), Some(failed), Some(cancelled)) => {
                    (c.open, c.succeeded, c.failed, c.cancelled) =
                        (open, succeeded, failed, cancelled);
                }
                // The database will refuse it too.
                _ => drop(kept.runs.remove(&id)),
            }
        });
    }

    /// Counts one more grant of a session under lock: its number, and the worker's name.
    pub async fn count_grant(&self, id: SessionId) -> Result<(u64, String)> {
        let session = self.session(id).await?;
        let mut session =
            session.ok_or_else(|| Error::Corrupt(format!("session {id} is gone under lock")))?;
        self.gathered(|gathered| gathered.count_grant(int(id.0)));
        session.grant_seq += 1;
        let counted = (session.grant_seq, session.worker.name.as_str().to_owned());
        self.kept(|kept| {
            kept.sessions.insert(id, session);
        });
        Ok(counted)
    }

    /// The run's row was changed otherwise than by [`Tx::count_run`].
    pub fn run_changed(&self, id: RunId) {
        self.kept(|kept| drop(kept.runs.remove(&id)));
    }

    /// The run's first shard was granted.
    pub fn run_started(&self, id: RunId, deadline: Option<Timestamp>) {
        let now = self.now;
        self.kept(|kept| {
            if let Some(run) = kept.runs.get_mut(&id) {
                let run = Arc::make_mut(run);
                run.state = RunState::Running;
                run.started_at = Some(now);
                run.terms.deadline = deadline;
                run.ver += 1;
            }
        });
    }

    pub fn shard_changed(&self, key: ShardKey) {
        self.kept(|kept| drop(kept.shards.remove(&key)));
    }

    pub fn session_changed(&self, id: SessionId) {
        self.kept(|kept| drop(kept.sessions.remove(&id)));
    }

    pub fn duty_changed(&self, key: &str) {
        self.kept(|kept| drop(kept.duties.remove(key)));
    }

    pub fn job_changed(&self, uid: JobUid) {
        self.kept(|kept| drop(kept.jobs.remove(&uid)));
    }

    /// The job's mark has moved to `to`.
    pub fn job_advanced(
        &self,
        uid: JobUid,
        to: Timestamp,
        next_due: Option<Timestamp>,
        chain: Option<Chain>,
        zones: Option<Zones>,
    ) {
        // As the row will say it: in whole microseconds.
        let whole = |t: Timestamp| Timestamp::from_microsecond(t.as_microsecond()).unwrap_or(t);
        self.kept(|kept| {
            if let Some(row) = kept.jobs.get_mut(&uid) {
                row.job.high_water = whole(to);
                row.job.next_due = next_due.map(whole);
                row.job.chain = chain;
                if zones.is_some() {
                    row.job.zones = zones;
                }
                row.job.ver += 1;
            }
        });
    }

    /// Shards of the run were changed, no matter which.
    pub fn shards_changed(&self, run: RunId) {
        self.kept(|kept| kept.shards.retain(|key, _| key.run != run));
    }

    /// Before runs are written, in one round trip: the runs that these occasions of locked jobs have, ids
    /// for those without, and what the sessions hold that runs are to be given to at once. Nothing is asked
    /// of what was looked for before.
    pub async fn look_for_runs(&self, runs: &[&NewRun]) -> Result<()> {
        let of = runs.iter().map(|run| (run.job, run.occasion.key()));
        let unknown = |(job, key): &(JobUid, String)| {
            self.kept(|kept| {
                !kept
                    .occasions
                    .get(job)
                    .is_some_and(|of| of.contains_key(key))
            })
        };
        let of: Vec<(JobUid, String)> = of.filter(unknown).collect();
        if of.is_empty() {
            return Ok(());
        }
        let born = runs
            .iter()
            .filter_map(|run| Some((run.born_leased?, &run.terms.pool)));
        let born: BTreeMap<SessionId, &Name> = born.collect();
        let (jobs, keys): (Vec<uuid::Uuid>, Vec<String>) =
            of.iter().map(|(job, key)| (job.0, key.clone())).unzip();
        let found = self.all(sql::FIND_RUN, (jobs, keys), |row| {
            let run = (RunId(row.u64(2)?), row.text(3)?);
            Ok((JobUid(row.uuid(0)?), row.text(1)?, run))
        });
        // Of a session of another pool nothing is counted here, and it is given nothing.
        let held = try_join_all(born.iter().map(|(id, pool)| self.held(*id, pool)));
        // Ids of runs that are there already are for the next ones.
        let (found, (), _) = try_join3(found, self.reserve_ids(of.len()), held).await?;
        self.kept(|kept| {
            for (job, key) in of {
                kept.occasions.entry(job).or_default().insert(key, None);
            }
            for (job, key, run) in found {
                kept.occasions
                    .entry(job)
                    .or_default()
                    .insert(key, Some(run));
            }
        });
        Ok(())
    }

    /// A run was written.
    pub fn run_written(&self, job: JobUid, key: &str, id: RunId, digest: &str) {
        self.kept(|kept| {
            let occasions = kept.occasions.entry(job).or_default();
            occasions.insert(key.to_owned(), Some((id, digest.to_owned())));
        });
    }

    /// How many shards a locked session holds.
    pub async fn held(&self, id: SessionId, pool: &Name) -> Result<u32> {
        let of = |(of, held): &(Name, u32)| (of == pool).then_some(*held);
        let kept = self.kept(|kept| kept.held.get(&id).and_then(of));
        if let Some(held) = kept {
            return Ok(held);
        }
        let held = self
            .count(sql::COUNT_HELD, (int(id.0), pool.as_str()))
            .await?;
        self.kept(|kept| kept.held.insert(id, (pool.clone(), held)));
        Ok(held)
    }

    /// How many shards of a locked run are held.
    pub async fn running(&self, id: RunId) -> Result<u32> {
        let kept = self.kept(|kept| kept.running.get(&id).copied());
        if let Some(running) = kept {
            return Ok(running);
        }
        self.count_holds(&[], &[id]).await?;
        Ok(self.kept(|kept| kept.running.get(&id).copied().unwrap_or(0)))
    }

    /// Counts what many locked sessions and runs hold at once.
    pub async fn count_holds(&self, sessions: &[SessionId], runs: &[RunId]) -> Result<()> {
        self.warm(sql::COUNT_HELD).await?;
        let known = try_join_all(sessions.iter().map(|id| self.session(*id))).await?;
        let known: Vec<_> = known.into_iter().flatten().collect();
        try_join_all(known.iter().map(|s| self.held(s.id, &s.pool))).await?;
        if runs.is_empty() {
            return Ok(());
        }
        let runs = try_join_all(runs.iter().map(|id| self.run_row(*id))).await?;
        let places: Vec<Place> = runs
            .into_iter()
            .flatten()
            .map(|run| Place::of(&run))
            .collect();
        let counted = self
            .all(sql::COUNT_RUNNING, columns(&places), |row| {
                Ok((RunId(row.u64(0)?), row.u32(1)?))
            })
            .await?;
        self.kept(|kept| kept.running.extend(counted));
        Ok(())
    }

    /// A shard was given to a session.
    pub fn shard_given(&self, key: ShardKey, session: SessionId) {
        self.kept(|kept| {
            kept.shards.remove(&key);
            if let Some((_, held)) = kept.held.get_mut(&session) {
                *held += 1;
            }
            if let Some(running) = kept.running.get_mut(&key.run) {
                *running += 1;
            }
        });
    }

    /// Locks a calendar against others that change it or use it anew.
    pub async fn lock_calendar(&self, name: &JobName) -> Result<()> {
        let params = (name.namespace.as_str(), name.name.as_str());
        self.all(sql::LOCK_CALENDAR, params, |_| Ok(())).await?;
        Ok(())
    }

    /// Keeps calendars in their versions.
    pub async fn share_calendars(&self, uses: &[(JobName, u32)]) -> Result<()> {
        if uses.is_empty() {
            return Ok(());
        }
        let texts = |part: fn(&JobName) -> &Name| -> Vec<String> {
            uses.iter()
                .map(|(name, _)| part(name).to_string())
                .collect()
        };
        let params = (texts(|name| &name.namespace), texts(|name| &name.name));
        self.all(sql::SHARE_CALENDARS, params, |_| Ok(())).await?;
        Ok(())
    }

    /// Locks the live job of a name; which it is.
    pub async fn lock_live_job(&self, name: &JobName) -> Result<Option<JobUid>> {
        let params = (name.namespace.as_str(), name.name.as_str());
        let rows = self
            .all(sql::LOCK_LIVE_JOB, params, |row| row.job())
            .await?;
        let uid = rows.first().map(|row| row.job.uid);
        self.keep_jobs(rows);
        Ok(uid)
    }

    /// Locks `node` and the owners of the duties `keys`.
    pub async fn lock_nodes(&self, keys: Vec<String>, node: NodeId) -> Result<()> {
        let params = (keys, int(node.0));
        self.all(sql::LOCK_NODES, params, |_| Ok(())).await?;
        Ok(())
    }

    /// Locks the live sessions of the worker `uid`.
    pub async fn lock_sessions_of_worker(&self, uid: &str) -> Result<()> {
        self.all(sql::LOCK_SESSIONS_OF_WORKER, [uid], |_| Ok(()))
            .await?;
        Ok(())
    }

    /// Waits for others that do the same and have no row to lock for it yet.
    pub async fn take_turn(&self, of: Turn, which: &str) -> Result<()> {
        self.all(sql::TAKE_TURN, (of as i32, which), |_| Ok(()))
            .await?;
        Ok(())
    }
}

/// What is done by one transaction at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Claiming duties, which may not have a row yet.
    Claim = 1,
    /// Registering a worker of one uid.
    Register = 2,
    /// Changing a calendar, which may not have a row yet.
    Calendar = 3,
    /// Making or taking back a token, which may not have a row yet.
    AccessToken = 4,
    /// Changing a capacity, which may not have a row yet.
    Capacity = 5,
    /// Setting what a namespace may have, which may not have a row yet.
    Namespace = 6,
    /// Accepting a step of the clock.
    Clock = 7,
    /// Changing what runs begin and end by ([`super::gates`]), which they look at many at once.
    Gate = 8,
    /// Taking an idempotency key, which may not have a row yet.
    RequestKey = 9,
    /// Making or changing a user, who may not have a row yet.
    User = 10,
}
