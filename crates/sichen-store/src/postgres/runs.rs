//! Runs: written, stopped, settled, reopened.

use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::dispatch::queue::Place;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, RunId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::{
    LATE_AT_ONCE, STARTING_DEADLINE, Turn, how_gone, needs_sums, settled, stopped_by, turn,
};
use sichen_core::lifecycle::{RunState, ShardState, StopCause, may_reopen, told};
use sichen_core::model::{Counting, Counts, DutyKey, Run, Shard, partition_of};
use sichen_core::name::Name;
use sichen_core::port::{
    CreateVerdict, Error, Fence, Granted, LateRuns, NewRun, Page, RequestVerdict, RunFilter,
};

use super::batch::{Batched, ROWS};
use super::jobs::array;
use super::param::{Param, Params, params};
use super::row::{JobRow, ShardRow, at, int, not_before, opt_at, opt_micros};
use super::tx::{Happened, Read, Result, Tx};
use super::{backfills, capped, chains, leases, namespaces, sql};

/// Writes runs. `counted`: whether their namespaces have room for them was seen to, or does not matter.
pub(super) async fn create_all(
    tx: &mut Tx,
    fences: &[Fence],
    runs: Vec<NewRun>,
    counted: bool,
) -> Result<Vec<CreateVerdict>> {
    tx.look_for_runs(&Vec::from_iter(&runs)).await?;
    let mut verdicts = Vec::with_capacity(runs.len());
    for run in runs {
        verdicts.push(create(tx, fences, run, counted).await?);
        tx.step().await?;
    }
    Ok(verdicts)
}

async fn create(
    tx: &mut Tx,
    fences: &[Fence],
    new: NewRun,
    counted: bool,
) -> Result<CreateVerdict> {
    let occasion = new.occasion.key();
    if let Some((id, digest)) = tx.run_of(new.job, &occasion).await? {
        return Ok(new.taken(id, &digest));
    }
    let Some(JobRow { job, deleted }) = tx.job(new.job).await? else {
        return Ok(CreateVerdict::Conflict);
    };
    let open_now = if new.is_judged() && job.counting == Counting::Never {
        Some(tx.open_of(new.job, u32::MAX).await?)
    } else {
        None
    };
    if deleted || !new.holds(&job, open_now) {
        return Ok(CreateVerdict::Conflict);
    }
    let holder = match new.heir(tx.now) {
        Some(session) => {
            let pool = DutyKey::Pool(new.terms.pool.clone());
            let current = match fences.iter().find(|f| f.key == pool) {
                Some(fence) => tx.is_current(fence).await?,
                None => false,
            };
            let can = current
                && leases::can_hold(tx, session, &new.terms.pool)
                    .await?
                    .is_ok()
                && !namespaces::is_limited(tx, &job.name.namespace).await?;
            can.then_some(session)
        }
        None => None,
    };
    let birth = new.birth(holder.is_some(), tx.now);
    if !counted
        && birth.state == RunState::Scheduled
        && let Err(full) = namespaces::may_queue(tx, &job.name.namespace, 1).await?
    {
        return Ok(CreateVerdict::Full(full));
    }
    let (state, waits, replaces) = (birth.state, birth.waits, birth.replaces());
    let replaced = if replaces {
        open(tx, new.job).await?
    } else {
        Vec::new()
    };
    if let (Some(open), Some(_)) = (open_now, waits) {
        let counts = Counts::under(Counting::WhileWaiting, &job, open);
        tx.set_counts(new.job, counts).await?;
    }
    let (rerun_of, rerun) = backfills::rerun(&new.occasion).unzip();
    let id = RunId(tx.next_id().await?);
    let terms = &new.terms;
    let place = new.place(&job.name.namespace, id);
    let nominal = new.nominal.as_ref().map(serde_json::to_string).transpose();
    let nominal = nominal.map_err(|e| Error::Corrupt(format!("nominal time of run {id}: {e}")))?;
    tx.gathered(|gathered| {
        gathered.add(
            Batched::InsertRun,
            params![
                int(id.0),
                new.job.0,
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
            ],
        )
    });
    tx.run_written(new.job, &occasion, id, &new.digest);
    let data = told::created(&new, &birth);
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunCreated, "", state.word())
    };
    tx.event(&Entity::Run(id), 1, &happened)?;
    match new.backfill {
        Some(lane) => backfills::closed(tx, lane, (id, 1), state, false).await?,
        None if state.is_closed() => {}
        None => {
            tx.count_active(new.job, 1, i32::from(waits.is_some()))
                .await?;
        }
    }
    if state == RunState::Scheduled {
        tx.queued(&job.name.namespace);
    }
    if holder.is_none() {
        let (first, pool) = (birth.first, &terms.pool);
        insert_shards(tx, place, pool, first, &new.shards, birth.ready_at).await?;
    }
    let detail = format!("replaced by {occasion}");
    for old in replaced {
        stop(tx, old, StopCause::Cancel, &detail).await?;
    }
    if replaces {
        // There may have been none, or none that ran.
        release(tx, new.job, None).await?;
        tx.forget_queues();
    }
    let Some(session) = holder else {
        return Ok(CreateVerdict::Created(id, None));
    };
    let Some(descriptor) = new.shards.first().cloned() else {
        return Ok(CreateVerdict::Created(id, None));
    };
    let born = Some((place, &new.terms.pool));
    let row = waiting(ShardKey::new(id, birth.first), descriptor, new.ready_at);
    let granted: Granted =
        leases::hand_over(tx, row, session, new.timeouts, &new.terms.uses, born).await?;
    Ok(CreateVerdict::Created(id, Some(granted)))
}

/// The open runs of a locked job, oldest first, as many as one run replaces: locked too, or written in
/// this transaction ([`Tx::lock_replaced`]).
async fn open(tx: &Tx, job: JobUid) -> Result<Vec<RunId>> {
    let mut open = tx.open_runs(job).await?;
    open.reverse();
    Ok(open)
}

pub(super) async fn note_dead_by(tx: &Tx, run: RunId, dead_by: Timestamp) -> Result<()> {
    tx.must(sql::NOTE_DEAD_BY, (int(run.0), at(dead_by)))
        .await?;
    tx.run_changed(run);
    Ok(())
}

/// A run that closed, and when the last of its task trees is surely gone, if nobody confirmed it.
type Closed = (RunId, Option<Timestamp>);

/// Gives waiting runs of a job their turn, as far as there is room now that one has closed.
async fn release(tx: &mut Tx, job: JobUid, mut closed: Option<Closed>) -> Result<()> {
    if tx.kept_job(job, |job| job.waiting_runs == 0) {
        return Ok(());
    }
    let mut late = Vec::new();
    while late.len() < LATE_AT_ONCE {
        let Some(JobRow { job: row, .. }) = tx.job(job).await? else {
            break;
        };
        if row.waiting_runs == 0 {
            break;
        }
        let running = row.active_runs.saturating_sub(row.waiting_runs);
        let first = tx.one(sql::GET_FIRST_WAITING, [job.0], |row| row.run());
        let Some(mut run) = first.await? else {
            break;
        };
        if let Some(dead_by) = closed.and_then(|(_, dead_by)| dead_by) {
            note_dead_by(tx, run.id, dead_by).await?;
            run.dead_by = run.dead_by.max(Some(dead_by));
        }
        match turn(&run, running, tx.now) {
            Turn::Wait => break,
            Turn::TooLate => {
                begin_stop(tx, run.id, StopCause::Cancel, STARTING_DEADLINE).await?;
                let Some(ended) = close(tx, run.id).await? else {
                    break;
                };
                // The next one has its place.
                closed = Some((run.id, run.dead_by));
                late.push(ended);
            }
            Turn::Start(ready_at) => start(tx, &run, ready_at, closed).await?,
        }
    }
    for (run, outcome) in late.into_iter().rev() {
        chains::end(tx, &run, outcome).await?;
    }
    Ok(())
}

/// A waiting run may start from `ready_at` on.
async fn start(tx: &mut Tx, run: &Run, ready_at: Timestamp, closed: Option<Closed>) -> Result<()> {
    let id = int(run.id.0);
    tx.must(sql::RELEASE_RUN, (id, not_before(ready_at)))
        .await?;
    let place = Place::of(run);
    let shards = (
        id,
        not_before(ready_at),
        run.terms.pool.as_str(),
        place.queue,
        place.turn,
        tx.is_later(ready_at),
    );
    tx.must(sql::RELEASE_SHARDS, shards).await?;
    tx.run_changed(run.id);
    tx.shards_changed(run.id);
    tx.count_active(run.job, 0, -1).await?;
    let data = told::released(ready_at, closed.map(|(run, _)| run));
    let state = run.state.word();
    let happened = Happened {
        cause: how_gone(run.dead_by),
        data,
        ..Happened::new(Kind::RunReleased, state, state)
    };
    tx.event(&Entity::Run(run.id), run.ver + 1, &happened)
}

/// A shard as it has just been written.
fn waiting(key: ShardKey, descriptor: Descriptor, ready_at: Timestamp) -> ShardRow {
    let ready_at = Timestamp::from_microsecond(not_before(ready_at)).unwrap_or(ready_at);
    let shard = Shard::waiting(key, descriptor, ready_at);
    let last_end = None;
    ShardRow { shard, last_end }
}

/// Writes shards numbered from `first`, waiting.
pub(super) async fn insert_shards(
    tx: &Tx,
    place: Place,
    pool: &Name,
    first: i32,
    descriptors: &[Descriptor],
    ready_at: Timestamp,
) -> Result<()> {
    let later = tx.is_later(ready_at);
    let (ready_at, run) = (not_before(ready_at), place.run);
    for (n, (no, descriptor)) in (first..).zip(descriptors).enumerate() {
        if n > 0 && n % ROWS == 0 {
            // A large run is not held in memory as a whole.
            tx.press().await?;
        }
        let text = serde_json::to_string(descriptor)
            .map_err(|e| Error::Corrupt(format!("descriptors of run {run}: {e}")))?;
        let row = params![
            int(run.0),
            pool.as_str(),
            no,
            text,
            ready_at,
            place.queue,
            place.turn,
            ShardState::Scheduled.word(),
            0,
            0,
            Param::Null,
            0,
            Param::Null,
            Param::Null,
            Param::Null,
            Param::Null,
            later,
        ];
        tx.gathered(|gathered| gathered.add(Batched::InsertShards, row));
    }
    Ok(())
}

/// Writes a shard that is given away at once.
pub(super) fn insert_leased(tx: &Tx, shard: &Shard, place: Place, pool: &Name) -> Result<()> {
    let text = serde_json::to_string(&shard.descriptor)
        .map_err(|e| Error::Corrupt(format!("descriptor of shard {}: {e}", shard.key)))?;
    let row = params![
        int(shard.key.run.0),
        pool.as_str(),
        shard.key.no.0,
        text,
        not_before(shard.ready_at),
        place.queue,
        place.turn,
        shard.state.word(),
        int(shard.token.0),
        shard.attempt,
        shard.session.map(|session| int(session.0)),
        int(shard.grant_seq),
        opt_at(shard.timeout_at),
        opt_at(shard.started_at),
        opt_at(shard.attempt_until),
        opt_micros(shard.stall),
        false,
    ];
    tx.gathered(|gathered| gathered.add(Batched::InsertShards, row));
    Ok(())
}

/// Settles the run if nothing of it is open, and sees to what waits for that.
pub(super) async fn settle_if_complete(tx: &mut Tx, id: RunId) -> Result<Option<RunState>> {
    let Some((run, outcome)) = close(tx, id).await? else {
        return Ok(None);
    };
    release(tx, run.job, Some((id, run.dead_by))).await?;
    chains::end(tx, &run, outcome).await?;
    Ok(Some(outcome))
}

/// Settles the run if nothing of it is open; the run as it was, and its outcome.
async fn close(tx: &mut Tx, id: RunId) -> Result<Option<(Arc<Run>, RunState)>> {
    let Some(run) = tx.run_row(id).await? else {
        return Ok(None);
    };
    if run.state.is_closed() || run.counters.open > 0 {
        return Ok(None);
    }
    // The sums are read only where they decide something: they cost a walk over the shards.
    let sums = if needs_sums(&run) {
        tx.progress(id).await?
    } else {
        Default::default()
    };
    let Some(settled) = settled(&run, &sums) else {
        return Ok(None);
    };
    let (outcome, reason) = (settled.outcome, &settled.reason);
    tx.gathered(|gathered| gathered.settle(int(id.0), outcome.word(), reason, at(tx.now)));
    tx.run_changed(id);
    match run.backfill {
        Some(lane) => backfills::closed(tx, lane, (id, run.round), outcome, true).await?,
        None => {
            tx.count_active(run.job, -1, -i32::from(run.waits.is_some()))
                .await?;
        }
    }
    let happened = Happened {
        cause: reason,
        data: told::settled(&run, &settled),
        ..Happened::new(Kind::RunSettled, run.state.word(), outcome.word())
    };
    tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    Ok(Some((run, outcome)))
}

pub(super) async fn list(read: &Read, filter: &RunFilter, page: &Page<RunId>) -> Result<Vec<Run>> {
    let before = page.after.map_or(i64::MAX, |id| int(id.0));
    let limit = capped(page);
    if let Some(id) = filter.backfill {
        let params = (before, limit, int(id.0));
        let runs = read.all(sql::LIST_RUNS_OF_BACKFILL, params, |row| row.run());
        return runs.await;
    }
    match (filter.job, filter.state) {
        (Some(job), None) if filter.open => {
            read.all(sql::LIST_OPEN_RUNS, (before, limit, job.0), |row| row.run())
                .await
        }
        (None, None) => {
            read.all(sql::LIST_RUNS, (before, limit), |row| row.run())
                .await
        }
        (Some(job), None) => {
            read.all(sql::LIST_RUNS_BY_JOB, (before, limit, job.0), |row| {
                row.run()
            })
            .await
        }
        (None, Some(state)) => {
            read.all(
                sql::LIST_RUNS_BY_STATE,
                (before, limit, state.word()),
                |row| row.run(),
            )
            .await
        }
        (Some(job), Some(state)) => {
            let params = (before, limit, job.0, state.word());
            read.all(sql::LIST_RUNS_BY_JOB_AND_STATE, params, |row| row.run())
                .await
        }
    }
}

pub(super) async fn request_stop(
    tx: &mut Tx,
    fence: Option<&Fence>,
    id: RunId,
    cause: StopCause,
) -> Result<RequestVerdict> {
    let Some(run) = tx.run_row(id).await? else {
        return Ok(RequestVerdict::Missing);
    };
    if let Some(fence) = fence {
        let right = fence.key == DutyKey::Trigger(partition_of(run.job));
        if !right || !tx.under(fence).await? {
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
    Ok(RequestVerdict::Done(stop(tx, id, cause, detail).await?))
}

/// Records the stop, cancels what waits, settles if that was all.
pub(super) async fn stop(
    tx: &mut Tx,
    id: RunId,
    cause: StopCause,
    detail: &str,
) -> Result<Option<RunState>> {
    begin_stop(tx, id, cause, detail).await?;
    settle_if_complete(tx, id).await
}

/// Records the stop and cancels what waits.
async fn begin_stop(tx: &mut Tx, id: RunId, cause: StopCause, detail: &str) -> Result<()> {
    let Some(run) = tx.run_row(id).await? else {
        return Ok(());
    };
    if run.stop.is_none() {
        tx.must(sql::STOP_RUN, (int(id.0), cause.word(), at(tx.now), detail))
            .await?;
        tx.run_changed(id);
        let data = told::stop_requested(cause, detail);
        let state = run.state.word();
        let happened = Happened {
            cause: cause.word(),
            data,
            ..Happened::new(Kind::StopRequested, state, state)
        };
        tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    }
    stop_waiting(tx, &run, cause).await
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

pub(super) async fn heads(
    tx: &Tx,
    statement: &'static str,
    run: RunId,
    params: impl Params,
) -> Result<Vec<Head>> {
    tx.all(statement, params, |row| {
        Ok(Head {
            key: ShardKey::new(run, row.i32(0)?),
            state: row.shard_state(1)?,
            ver: row.u32(2)?,
            token: row.u64(3)?,
            discarded: statement == sql::LIST_FAILED_SHARDS && row.opt_at(4)?.is_some(),
        })
    })
    .await
}

fn shard_event(tx: &mut Tx, head: &Head, kind: Kind, to: ShardState, cause: &str) -> Result<()> {
    let happened = Happened {
        cause,
        ..Happened::new(kind, head.state.word(), to.word())
    };
    head.event(tx, happened)
}

impl Head {
    /// Writes what happened to the shard; its row's version is the next one.
    pub fn event(&self, tx: &mut Tx, happened: Happened<'_>) -> Result<()> {
        let happened = Happened {
            token: Some(Token(self.token)),
            ..happened
        };
        tx.event(&Entity::Shard(self.key), self.ver + 1, &happened)
    }
}

/// Cancels the shards of a run that wait for a grant.
pub(super) async fn stop_waiting(tx: &mut Tx, run: &Run, cause: StopCause) -> Result<()> {
    let (id, pool, place) = (run.id, run.terms.pool.as_str(), Place::of(run));
    let params = (int(id.0), pool, place.queue, place.turn);
    let waiting = heads(tx, sql::LIST_WAITING_SHARDS, id, params).await?;
    if waiting.is_empty() {
        return Ok(());
    }
    let stopped = tx
        .run(
            sql::STOP_WAITING_SHARDS,
            (int(id.0), at(tx.now), pool, place.queue, place.turn),
        )
        .await?;
    if stopped != waiting.len() {
        return Err(Error::Corrupt(format!(
            "run {id} changed within one transaction"
        )));
    }
    let n = int(waiting.len() as u64);
    tx.count_run(id, [-n, 0, 0, n]);
    tx.shards_changed(id);
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

pub(super) async fn reopen(
    tx: &mut Tx,
    id: RunId,
    only: Option<Vec<ShardKey>>,
    ready_at: Timestamp,
    lane: Option<BackfillId>,
) -> Result<RequestVerdict> {
    let Some(run) = tx.run_row(id).await? else {
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
    let mut closed = heads(tx, sql::LIST_FAILED_SHARDS, id, [int(id.0)]).await?;
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
    );
    tx.must(sql::REOPEN_RUN, params).await?;
    tx.run_changed(id);
    tx.shards_changed(id);
    match lane {
        Some(lane) => backfills::reopened(tx, lane, run.backfill == Some(lane)).await?,
        None => tx.count_active(run.job, 1, 0).await?,
    }
    let data = told::reopened(run.round + 1, closed.len(), lane);
    let to = RunState::Running.word();
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunReopened, from.word(), to)
    };
    tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    let (ready_at, queue) = (not_before(ready_at), run.queue_in(lane));
    for head in &closed {
        tx.must(
            sql::REOPEN_SHARD,
            (int(id.0), head.key.no.0, head.ver, ready_at, queue),
        )
        .await?;
        shard_event(tx, head, Kind::ShardReopened, ShardState::Scheduled, "")?;
    }
    Ok(RequestVerdict::Done(None))
}

pub(super) async fn list_late(read: &Read, partitions: &[u8], limit: u32) -> Result<LateRuns> {
    let params = (read.clock(), array(partitions), limit);
    let found = read.all(sql::LIST_LATE_RUNS, params, |row| {
        let partition = row.opt_u64(1)?.and_then(|no| u8::try_from(no).ok());
        let run = row.opt_u64(0)?.map(RunId);
        Ok((run.zip(partition), row.opt_at(2)?))
    });
    let (late, next): (Vec<_>, Vec<_>) = found.await?.into_iter().unzip();
    let mut late: Vec<_> = late.into_iter().flatten().collect();
    late.sort_unstable();
    late.dedup();
    late.truncate(limit as usize);
    let next = next.into_iter().flatten().min();
    Ok(LateRuns { late, next })
}

pub(super) async fn settle_complete(
    tx: &mut Tx,
    fences: &[Fence],
    limit: u32,
) -> Result<Vec<RunId>> {
    let complete = tx
        .all(sql::LIST_COMPLETE_RUNS, [limit], |row| {
            Ok((RunId(row.u64(0)?), JobUid(row.uuid(1)?)))
        })
        .await?;
    let ids: Vec<RunId> = complete.iter().map(|(id, _)| *id).collect();
    tx.lock_runs(&ids).await?;
    tx.tell_time().await?;
    let mut settled = Vec::new();
    for (id, job) in complete {
        let key = DutyKey::Trigger(partition_of(job));
        let Some(fence) = fences.iter().find(|f| f.key == key) else {
            continue;
        };
        if tx.under(fence).await? {
            settle_if_complete(tx, id).await?;
            settled.push(id);
        }
    }
    Ok(settled)
}
