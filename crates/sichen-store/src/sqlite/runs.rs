//! Runs: written, stopped, settled, reopened.

use jiff::Timestamp;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::{
    LATE_AT_ONCE, STARTING_DEADLINE, Turn, how_gone, needs_sums, settled, stopped_by, turn,
};
use sichen_core::lifecycle::{RunState, ShardState, StopCause, may_reopen, told};
use sichen_core::model::{Counting, Counts, DutyKey, Run, partition_of};
use sichen_core::name::Name;
use sichen_core::port::{
    CreateVerdict, Error, Fence, Granted, LateRuns, MAX_BATCH, MAX_COUNTED_RUNS, NewRun, Page,
    RequestVerdict, RunFilter,
};

use super::jobs::json_array;
use super::row::{JobRow, at, blob, int, not_before, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{backfills, capped, chains, leases, namespaces, sql};

/// Shards written by one statement.
const CHUNK: usize = 5_000;

/// Writes a run. `counted`: whether its namespace has room for it was seen to, or does not matter.
pub(super) fn create(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    new: NewRun,
    counted: bool,
) -> Result<CreateVerdict> {
    let occasion = new.occasion.key();
    if let Some((id, digest)) = tx.run_of(new.job, &occasion)? {
        return Ok(new.taken(id, &digest));
    }
    let Some(JobRow { job, deleted }) = tx.job(new.job)? else {
        return Ok(CreateVerdict::Conflict);
    };
    let uncounted = new.is_judged() && job.counting == Counting::Never;
    let open_now = uncounted.then(|| open_of(tx, new.job, u32::MAX));
    let open_now = open_now.transpose()?;
    if deleted || !new.holds(&job, open_now) {
        return Ok(CreateVerdict::Conflict);
    }
    let holder = match new.heir(tx.now) {
        Some(session) => {
            let pool = DutyKey::Pool(new.terms.pool.clone());
            let current = match fences.iter().find(|f| f.key == pool) {
                Some(fence) => tx.is_current(fence)?,
                None => false,
            };
            let can = current
                && leases::can_hold(tx, session, &new.terms.pool)?.is_ok()
                && namespaces::room(tx, &job.name.namespace)? != Some(0);
            can.then_some(session)
        }
        None => None,
    };
    let birth = new.birth(holder.is_some(), tx.now);
    if !counted
        && birth.state == RunState::Scheduled
        && let Err(full) = namespaces::may_queue(tx, &job.name.namespace, 1)?
    {
        return Ok(CreateVerdict::Full(full));
    }
    let (state, waits, replaces) = (birth.state, birth.waits, birth.replaces());
    let replaced = if replaces {
        open(tx, new.job)?
    } else {
        Vec::new()
    };
    if let (Some(open), Some(_)) = (open_now, waits) {
        let counts = Counts::under(Counting::WhileWaiting, &job, open);
        set_counts(tx, new.job, counts)?;
    }
    let (rerun_of, rerun) = backfills::rerun(&new.occasion).unzip();
    let id = RunId(tx.next_id());
    let terms = &new.terms;
    let place = new.place(&job.name.namespace, id);
    let nominal = new.nominal.as_ref().map(serde_json::to_string).transpose();
    let nominal = nominal.map_err(|e| Error::Corrupt(format!("nominal time of run {id}: {e}")))?;
    tx.must(
        sql::INSERT_RUN,
        rusqlite::params![
            int(id.0),
            blob(new.job.0),
            job.name.namespace.as_str(),
            job.name.name.as_str(),
            occasion,
            new.revision.0,
            opt_at(new.period.map(|p| p.start)),
            opt_at(new.period.map(|p| p.end)),
            terms.pool.as_str(),
            terms.handler,
            terms.rank(),
            terms.parallelism,
            terms.parameters,
            terms.counts_must_match,
            opt_at(birth.deadline),
            state.word(),
            birth.total,
            birth.open,
            new.digest,
            at(tx.now),
            opt_at(birth.started_at),
            opt_at(birth.ended_at),
            partition_of(new.job),
            nominal,
            waits.map(|waits| waits.what.word()),
            waits.map(|waits| waits.most),
            not_before(new.ready_at),
            opt_at(terms.start_by),
            new.backfill.map(|id| int(id.0)),
            rerun_of.map(at),
            rerun,
            terms.uses.text(),
            place.queue,
            place.turn,
        ],
    )?;
    let data = told::created(&new, &birth);
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunCreated, "", state.word())
    };
    tx.event(&Entity::Run(id), 1, &happened)?;
    match new.backfill {
        Some(lane) => backfills::closed(tx, lane, (id, 1), state, false)?,
        None if state.is_closed() => {}
        None => count_active(tx, new.job, 1, i32::from(waits.is_some()))?,
    }
    if state == RunState::Scheduled {
        tx.queued(&job.name.namespace);
    }
    insert_shards(
        tx,
        id,
        &terms.pool,
        birth.first,
        &new.shards,
        birth.ready_at,
    )?;
    let detail = format!("replaced by {occasion}");
    for old in replaced {
        stop(tx, old, StopCause::Cancel, &detail)?;
    }
    if replaces {
        // There may have been none, or none that ran.
        release(tx, new.job, None)?;
        tx.forget_queues();
    }
    let Some(session) = holder else {
        return Ok(CreateVerdict::Created(id, None));
    };
    let key = ShardKey::new(id, birth.first);
    let Some(row) = tx.shard(key)? else {
        return Err(Error::Corrupt(format!(
            "shard {key} is gone in its own transaction"
        )));
    };
    let granted: Granted =
        leases::hand_over(tx, row, session, new.timeouts, &new.terms.uses, true)?;
    Ok(CreateVerdict::Created(id, Some(granted)))
}

/// Writes shards numbered from `first`, waiting.
pub(super) fn insert_shards(
    tx: &Tx<'_>,
    run: RunId,
    pool: &Name,
    first: i32,
    descriptors: &[Descriptor],
    ready_at: Timestamp,
) -> Result<()> {
    let ready_at = not_before(ready_at);
    let bad = |e: serde_json::Error| Error::Corrupt(format!("descriptors of run {run}: {e}"));
    for (first, chunk) in (first..).step_by(CHUNK).zip(descriptors.chunks(CHUNK)) {
        let texts: std::result::Result<Vec<String>, _> =
            chunk.iter().map(serde_json::to_string).collect();
        let array = serde_json::to_string(&texts.map_err(bad)?).map_err(bad)?;
        let params = (int(run.0), pool.as_str(), first, array, ready_at);
        if tx.run(sql::INSERT_SHARDS, params)? != chunk.len() {
            return Err(Error::Corrupt(format!(
                "not all shards of run {run} were written"
            )));
        }
    }
    Ok(())
}

/// So many more runs of the job are open, and so many more of them wait for others.
fn count_active(tx: &Tx<'_>, uid: JobUid, by: i32, waiting: i32) -> Result<()> {
    let job = tx.job(uid)?.map(|row| row.job);
    let Some(job) = job.filter(|job| job.counting != Counting::Never) else {
        return Ok(());
    };
    // The database refuses to go below none.
    tx.must(sql::COUNT_ACTIVE_RUNS, (blob(uid.0), by, waiting))?;
    let counts = Counts::of(&job).and(by, waiting);
    if counts.counting == Counting::Never {
        set_counts(tx, uid, counts)?;
    }
    Ok(())
}

/// What the job's row says of its open runs.
pub(super) fn set_counts(tx: &Tx<'_>, job: JobUid, counts: Counts) -> Result<()> {
    let (counting, uid) = (counts.counting.word(), blob(job.0));
    let params = (uid, counting, counts.active, counts.waiting);
    tx.must(sql::SET_COUNTING, params)
}

/// How many runs of a job are open, at most `most`; not those of backfills.
pub(super) fn open_of(read: &Read<'_>, job: JobUid, most: u32) -> Result<u32> {
    read.count(sql::COUNT_OPEN_RUNS, (blob(job.0), most))
}

pub(super) fn count_open(read: &Read<'_>, jobs: &[JobUid]) -> Result<Vec<u32>> {
    let count = |uid: &JobUid| match read.job(*uid)?.map(|row| row.job) {
        Some(job) if job.counting == Counting::Never => open_of(read, *uid, MAX_COUNTED_RUNS),
        Some(job) => Ok(job.active_runs),
        None => Ok(0),
    };
    jobs.iter().map(count).collect()
}

/// The open runs of a job, oldest first, as many as one run replaces.
fn open(tx: &Tx<'_>, job: JobUid) -> Result<Vec<RunId>> {
    let params = (i64::MAX, MAX_BATCH as i64, blob(job.0));
    let mut open = tx.all(sql::LIST_OPEN_RUNS, params, |row| Ok(RunId(row.u64(0)?)))?;
    open.reverse();
    Ok(open)
}

/// A run that closed, and when the last of its task trees is surely gone, if nobody confirmed it.
type Closed = (RunId, Option<Timestamp>);

/// Gives waiting runs of a job their turn, as far as there is room now that one has closed.
fn release(tx: &mut Tx<'_>, job: JobUid, mut closed: Option<Closed>) -> Result<()> {
    let mut late = Vec::new();
    while late.len() < LATE_AT_ONCE {
        let Some(JobRow { job: row, .. }) = tx.job(job)? else {
            break;
        };
        if row.waiting_runs == 0 {
            break;
        }
        let running = row.active_runs.saturating_sub(row.waiting_runs);
        let first = tx.one(sql::GET_FIRST_WAITING, [blob(job.0)], |row| row.run())?;
        let Some(mut run) = first else {
            break;
        };
        if let Some(dead_by) = closed.and_then(|(_, dead_by)| dead_by) {
            tx.must(sql::NOTE_DEAD_BY, (int(run.id.0), at(dead_by)))?;
            run.dead_by = run.dead_by.max(Some(dead_by));
        }
        match turn(&run, running, tx.now) {
            Turn::Wait => break,
            Turn::TooLate => {
                begin_stop(tx, run.id, StopCause::Cancel, STARTING_DEADLINE)?;
                let Some(ended) = close(tx, run.id)? else {
                    break;
                };
                // The next one has its place.
                closed = Some((run.id, run.dead_by));
                late.push(ended);
            }
            Turn::Start(ready_at) => start(tx, &run, ready_at, closed)?,
        }
    }
    for (run, outcome) in late.into_iter().rev() {
        chains::end(tx, &run, outcome)?;
    }
    Ok(())
}

/// A waiting run may start from `ready_at` on.
fn start(tx: &mut Tx<'_>, run: &Run, ready_at: Timestamp, closed: Option<Closed>) -> Result<()> {
    let id = int(run.id.0);
    tx.must(sql::RELEASE_RUN, (id, not_before(ready_at)))?;
    tx.must(sql::RELEASE_SHARDS, (id, not_before(ready_at)))?;
    count_active(tx, run.job, 0, -1)?;
    let data = told::released(ready_at, closed.map(|(run, _)| run));
    let state = run.state.word();
    let happened = Happened {
        cause: how_gone(run.dead_by),
        data,
        ..Happened::new(Kind::RunReleased, state, state)
    };
    tx.event(&Entity::Run(run.id), run.ver + 1, &happened)
}

/// Settles the run if nothing of it is open, and sees to what waits for that.
pub(super) fn settle_if_complete(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunState>> {
    let Some((run, outcome)) = close(tx, id)? else {
        return Ok(None);
    };
    release(tx, run.job, Some((id, run.dead_by)))?;
    chains::end(tx, &run, outcome)?;
    Ok(Some(outcome))
}

/// Settles the run if nothing of it is open; the run as it was, and its outcome.
fn close(tx: &mut Tx<'_>, id: RunId) -> Result<Option<(Run, RunState)>> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(None);
    };
    if run.state.is_closed() || run.counters.open > 0 {
        return Ok(None);
    }
    // The sums are read only where they decide something: they cost a walk over the shards.
    let sums = if needs_sums(&run) {
        tx.progress(id)?
    } else {
        Default::default()
    };
    let Some(settled) = settled(&run, &sums) else {
        return Ok(None);
    };
    let (outcome, reason) = (settled.outcome, &settled.reason);
    tx.must(
        sql::SETTLE_RUN,
        (int(id.0), outcome.word(), reason.as_str(), at(tx.now)),
    )?;
    match run.backfill {
        Some(lane) => backfills::closed(tx, lane, (id, run.round), outcome, true)?,
        None => count_active(tx, run.job, -1, -i32::from(run.waits.is_some()))?,
    }
    let happened = Happened {
        cause: reason,
        data: told::settled(&run, &settled),
        ..Happened::new(Kind::RunSettled, run.state.word(), outcome.word())
    };
    tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    Ok(Some((run, outcome)))
}

pub(super) fn list(read: &Read<'_>, filter: &RunFilter, page: &Page<RunId>) -> Result<Vec<Run>> {
    let before = page.after.map_or(i64::MAX, |id| int(id.0));
    let limit = capped(page);
    if let Some(id) = filter.backfill {
        let params = (before, limit, int(id.0));
        return read.all(sql::LIST_RUNS_OF_BACKFILL, params, |row| row.run());
    }
    match (filter.job, filter.state) {
        (Some(job), None) if filter.open => {
            read.all(sql::LIST_OPEN_RUNS, (before, limit, blob(job.0)), |row| {
                row.run()
            })
        }
        (None, None) => read.all(sql::LIST_RUNS, (before, limit), |row| row.run()),
        (Some(job), None) => read.all(sql::LIST_RUNS_BY_JOB, (before, limit, blob(job.0)), |row| {
            row.run()
        }),
        (None, Some(state)) => read.all(
            sql::LIST_RUNS_BY_STATE,
            (before, limit, state.word()),
            |row| row.run(),
        ),
        (Some(job), Some(state)) => {
            let params = (before, limit, blob(job.0), state.word());
            read.all(sql::LIST_RUNS_BY_JOB_AND_STATE, params, |row| row.run())
        }
    }
}

pub(super) fn request_stop(
    tx: &mut Tx<'_>,
    fence: Option<&Fence>,
    id: RunId,
    cause: StopCause,
) -> Result<RequestVerdict> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(RequestVerdict::Missing);
    };
    if let Some(fence) = fence {
        let right = fence.key == DutyKey::Trigger(partition_of(run.job));
        if !right || !tx.under(fence)? {
            return Ok(RequestVerdict::OldTerm);
        }
    }
    if run.state.is_closed() {
        return Ok(RequestVerdict::NotNow(run.state));
    }
    if run.stop.is_some() || tx.repeated {
        return Ok(RequestVerdict::Already);
    }
    let (cause, detail) = stopped_by(&run, cause, tx.now);
    Ok(RequestVerdict::Done(stop(tx, id, cause, detail)?))
}

/// Records the stop, cancels what waits, settles if that was all.
pub(super) fn stop(
    tx: &mut Tx<'_>,
    id: RunId,
    cause: StopCause,
    detail: &str,
) -> Result<Option<RunState>> {
    begin_stop(tx, id, cause, detail)?;
    settle_if_complete(tx, id)
}

/// Records the stop and cancels what waits.
fn begin_stop(tx: &mut Tx<'_>, id: RunId, cause: StopCause, detail: &str) -> Result<()> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(());
    };
    if run.stop.is_none() {
        tx.must(sql::STOP_RUN, (int(id.0), cause.word(), at(tx.now), detail))?;
        let data = told::stop_requested(cause, detail);
        let state = run.state.word();
        let happened = Happened {
            cause: cause.word(),
            data,
            ..Happened::new(Kind::StopRequested, state, state)
        };
        tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    }
    stop_waiting(tx, id, cause)
}

/// The parts of a closed or waiting shard's row that reopening and stopping look at.
pub(super) struct Head {
    pub key: ShardKey,
    pub state: ShardState,
    pub ver: u32,
    token: u64,
    /// Struck off the dead letters; asked of failed ones alone.
    pub discarded: bool,
}

pub(super) fn heads(tx: &Tx<'_>, statement: &str, run: RunId) -> Result<Vec<Head>> {
    tx.all(statement, [int(run.0)], |row| {
        Ok(Head {
            key: ShardKey::new(run, row.i32(0)?),
            state: row.shard_state(1)?,
            ver: row.u32(2)?,
            token: row.u64(3)?,
            discarded: statement == sql::LIST_FAILED_SHARDS && row.opt_at(4)?.is_some(),
        })
    })
}

fn shard_event(
    tx: &mut Tx<'_>,
    head: &Head,
    kind: Kind,
    to: ShardState,
    cause: &str,
) -> Result<()> {
    let happened = Happened {
        cause,
        ..Happened::new(kind, head.state.word(), to.word())
    };
    head.event(tx, happened)
}

impl Head {
    /// Writes what happened to the shard; its row's version is the next one.
    pub fn event(&self, tx: &mut Tx<'_>, happened: Happened<'_>) -> Result<()> {
        let happened = Happened {
            token: Some(sichen_core::ids::Token(self.token)),
            ..happened
        };
        tx.event(&Entity::Shard(self.key), self.ver + 1, &happened)
    }
}

/// Cancels the shards of a run that wait for a grant.
pub(super) fn stop_waiting(tx: &mut Tx<'_>, id: RunId, cause: StopCause) -> Result<()> {
    let waiting = heads(tx, sql::LIST_WAITING_SHARDS, id)?;
    if waiting.is_empty() {
        return Ok(());
    }
    let stopped = tx.run(sql::STOP_WAITING_SHARDS, (int(id.0), at(tx.now)))?;
    if stopped != waiting.len() {
        return Err(Error::Corrupt(format!(
            "run {id} changed within one transaction"
        )));
    }
    let n = int(waiting.len() as u64);
    tx.must(sql::COUNT_RUN, (int(id.0), -n, 0, 0, n))?;
    for head in &waiting {
        shard_event(
            tx,
            head,
            Kind::ShardStopped,
            ShardState::Cancelled,
            cause.word(),
        )?;
    }
    Ok(())
}

pub(super) fn reopen(
    tx: &mut Tx<'_>,
    id: RunId,
    only: Option<Vec<ShardKey>>,
    ready_at: Timestamp,
    lane: Option<BackfillId>,
) -> Result<RequestVerdict> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(RequestVerdict::Missing);
    };
    if tx.repeated {
        return Ok(RequestVerdict::Already);
    }
    let from = run.state;
    if !matches!(from, RunState::Failed | RunState::Partial) {
        return Ok(RequestVerdict::NotNow(from));
    }
    let only = only.map(|keys| keys.into_iter().collect::<std::collections::BTreeSet<_>>());
    let mut closed = heads(tx, sql::LIST_FAILED_SHARDS, id)?;
    closed.retain(|head| {
        let named = only.as_ref().map(|only| only.contains(&head.key));
        named != Some(false) && may_reopen(head.state, head.discarded, named.is_some())
    });
    if closed.is_empty() {
        return Ok(RequestVerdict::NotNow(from));
    }
    let failed = closed
        .iter()
        .filter(|head| head.state == ShardState::Failed)
        .count();
    let (failed, cancelled) = (int(failed as u64), int((closed.len() - failed) as u64));
    let lane = lane.or(run.backfill);
    let params = (
        int(id.0),
        from.word(),
        failed,
        cancelled,
        lane.map(|id| int(id.0)),
        run.queue_in(lane),
    );
    tx.must(sql::REOPEN_RUN, params)?;
    match lane {
        Some(lane) => backfills::reopened(tx, lane, run.backfill == Some(lane))?,
        None => count_active(tx, run.job, 1, 0)?,
    }
    let data = told::reopened(run.round + 1, closed.len(), lane);
    let to = RunState::Running.word();
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunReopened, from.word(), to)
    };
    tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    let ready_at = not_before(ready_at);
    for head in &closed {
        tx.must(
            sql::REOPEN_SHARD,
            (int(id.0), head.key.no.0, head.ver, ready_at),
        )?;
        shard_event(tx, head, Kind::ShardReopened, ShardState::Scheduled, "")?;
    }
    Ok(RequestVerdict::Done(None))
}

pub(super) fn list_late(read: &Read<'_>, partitions: &[u8], limit: u32) -> Result<LateRuns> {
    let params = (at(read.now), json_array(partitions), limit);
    let found = read.all(sql::LIST_LATE_RUNS, params, |row| {
        let partition = row.opt_u64(1)?.and_then(|no| u8::try_from(no).ok());
        let run = row.opt_u64(0)?.map(RunId);
        Ok((run.zip(partition), row.opt_at(2)?))
    })?;
    let (late, next): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let mut late: Vec<_> = late.into_iter().flatten().collect();
    late.sort_unstable();
    late.dedup();
    late.truncate(limit as usize);
    let next = next.into_iter().flatten().min();
    Ok(LateRuns { late, next })
}

pub(super) fn settle_complete(tx: &mut Tx<'_>, fences: &[Fence], limit: u32) -> Result<Vec<RunId>> {
    let complete = tx.all(sql::LIST_COMPLETE_RUNS, [limit], |row| {
        Ok((RunId(row.u64(0)?), JobUid(row.uuid(1)?)))
    })?;
    let mut settled = Vec::new();
    for (id, job) in complete {
        let key = DutyKey::Trigger(partition_of(job));
        let Some(fence) = fences.iter().find(|f| f.key == key) else {
            continue;
        };
        if tx.under(fence)? {
            settle_if_complete(tx, id)?;
            settled.push(id);
        }
    }
    Ok(settled)
}
