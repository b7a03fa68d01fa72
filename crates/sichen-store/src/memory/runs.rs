//! Runs: written, stopped, settled, reopened.

use jiff::Timestamp;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::{
    Counters, LATE_AT_ONCE, STARTING_DEADLINE, Turn, how_gone, late, next_limit, settled,
    stopped_by, turn,
};
use sichen_core::lifecycle::{RunState, ShardState, StopCause, may_reopen, told};
use sichen_core::model::{
    Counting, Counts, DutyKey, PARTITIONS, Progress, Run, RunTerms, Shard, partition_of,
};
use sichen_core::port::{
    CreateVerdict, Fence, Granted, LateRuns, MAX_BATCH, MAX_COUNTED_RUNS, NewRun, Page,
    RequestVerdict, RunFilter,
};
use sichen_core::zoo;

use super::state::{Happened, ShardRow, State, Tx};
use super::{backfills, capped, chains, leases, namespaces};

/// Writes a run. `counted`: whether its namespace has room for it was seen to, or does not matter.
pub(super) fn create(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    new: NewRun,
    counted: bool,
) -> CreateVerdict {
    let key = (new.job, new.occasion.key());
    if let Some(id) = tx
        .state
        .occasions
        .get(&key)
        .filter(|_| !zoo::is("occasion-not-unique"))
    {
        let digest = tx.state.runs.get(id).map(|run| run.digest.as_str());
        return new.taken(*id, digest.unwrap_or_default());
    }
    let job = tx.state.jobs.get(&new.job).filter(|row| !row.deleted);
    let uncounted = job.filter(|row| new.is_judged() && row.job.counting == Counting::Never);
    let open_now = uncounted.map(|_| open_of(tx.state, new.job));
    let Some(job) = job.filter(|row| new.holds(&row.job, open_now)) else {
        return CreateVerdict::Conflict;
    };
    let job_name = job.job.name.clone();
    let holder = new.heir(tx.now).filter(|session| {
        fences
            .iter()
            .any(|f| f.key == DutyKey::Pool(new.terms.pool.clone()) && tx.state.is_current(f))
            && leases::can_hold(tx.state, tx.now, *session, &new.terms.pool).is_ok()
            && namespaces::may_run(tx.state, &job_name.namespace).is_ok()
    });
    let birth = new.birth(holder.is_some(), tx.now);
    if !counted && birth.state == RunState::Scheduled {
        match namespaces::may_queue(tx.state, new.job, 1) {
            Ok(()) => {}
            Err(full) => return CreateVerdict::Full(full),
        }
    }
    let data = told::created(&new, &birth);
    let (state, waits, replaces) = (birth.state, birth.waits, birth.replaces());
    let replaced = if replaces {
        open(tx.state, new.job)
    } else {
        Vec::new()
    };
    if let (Some(open), Some(_)) = (open_now, waits) {
        count_as(tx.state, new.job, Counting::WhileWaiting, open);
    }
    let id = RunId(tx.state.next_id());
    let run = Run {
        id,
        job: new.job,
        job_name,
        occasion: new.occasion,
        revision: new.revision,
        period: new.period,
        nominal: new.nominal,
        terms: RunTerms {
            deadline: birth.deadline,
            ..new.terms
        },
        backfill: new.backfill,
        waits,
        ready_at: Some(new.ready_at),
        dead_by: None,
        state,
        round: 1,
        ver: 1,
        counters: Counters {
            total: birth.total,
            open: birth.open,
            ..Counters::default()
        },
        failures: 0,
        stop: None,
        stop_detail: String::new(),
        reason: String::new(),
        digest: new.digest,
        created_at: tx.now,
        started_at: birth.started_at,
        ended_at: birth.ended_at,
    };
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunCreated, "", state.word())
    };
    tx.event(Entity::Run(id), 1, happened);
    let detail = format!("replaced by {}", key.1);
    tx.state.occasions.insert(key, id);
    if !state.is_closed() {
        backfills::opened(tx.state, &run);
    } else if let Some(lane) = new.backfill {
        backfills::closed(tx, lane, (id, run.round), state, false);
    }
    tx.state.runs.insert(id, run);
    insert_shards(tx, id, birth.first, &new.shards, birth.ready_at);
    for old in replaced {
        stop(tx, old, StopCause::Cancel, &detail);
    }
    if replaces {
        // There may have been none, or none that ran.
        release(tx, new.job, None);
    }
    let granted = holder.map(|session| {
        let key = ShardKey::new(id, birth.first);
        let grant_seq = leases::hand_over(tx, key, session, new.timeouts, true);
        let shard = tx.state.shards[&key].shard.clone();
        Granted { shard, grant_seq }
    });
    CreateVerdict::Created(id, granted)
}

/// Writes shards numbered from `first`, waiting.
pub(super) fn insert_shards(
    tx: &mut Tx<'_>,
    run: RunId,
    first: i32,
    descriptors: &[Descriptor],
    ready_at: Timestamp,
) {
    for (no, descriptor) in (first..).zip(descriptors) {
        let key = ShardKey::new(run, no);
        let shard = Shard::waiting(key, descriptor.clone(), ready_at);
        tx.state.shards.insert(
            key,
            ShardRow {
                shard,
                last_end: None,
            },
        );
    }
}

/// The open runs of a job, oldest first, as many as one run replaces; not those of backfills.
fn open(state: &State, job: JobUid) -> Vec<RunId> {
    let of_job = state.runs.values().filter(|run| run.job == job);
    let open = of_job.filter(|run| run.backfill.is_none());
    let open = open.filter(|run| !run.state.is_closed());
    open.map(|run| run.id).take(MAX_BATCH).collect()
}

/// How many runs of a job are open; not those of backfills.
pub(super) fn open_of(state: &State, job: JobUid) -> u32 {
    let of_job = state.runs.values().filter(|run| run.job == job);
    let open = of_job.filter(|run| run.backfill.is_none() && !run.state.is_closed());
    u32::try_from(open.count()).unwrap_or(u32::MAX)
}

pub(super) fn count_open(state: &State, jobs: &[JobUid]) -> Vec<u32> {
    let count = |uid: &JobUid| match state.jobs.get(uid) {
        Some(row) if row.job.counting == Counting::Never => {
            open_of(state, *uid).min(MAX_COUNTED_RUNS)
        }
        Some(row) => row.job.active_runs,
        None => 0,
    };
    jobs.iter().map(count).collect()
}

/// From now on the open runs of a job, of which there are `open`, are counted so.
pub(super) fn count_as(state: &mut State, job: JobUid, counting: Counting, open: u32) {
    if let Some(row) = state.jobs.get_mut(&job) {
        Counts::under(counting, &row.job, open).put(&mut row.job);
    }
}

/// A run that closed, and when the last of its task trees is surely gone, if nobody confirmed it.
type Closed = (RunId, Option<Timestamp>);

/// Gives waiting runs of a job their turn, as far as there is room now that one has closed.
fn release(tx: &mut Tx<'_>, job: JobUid, mut closed: Option<Closed>) {
    let mut late = Vec::new();
    while late.len() < LATE_AT_ONCE {
        let Some(row) = tx.state.jobs.get(&job) else {
            break;
        };
        if row.job.waiting_runs == 0 {
            break;
        }
        let running = row.job.active_runs.saturating_sub(row.job.waiting_runs);
        let now = tx.now;
        let mut waiting = tx.state.runs.values_mut().filter(|run| run.job == job);
        let Some(run) = waiting.find(|run| run.waits.is_some() && !run.state.is_closed()) else {
            break;
        };
        run.dead_by = run.dead_by.max(closed.and_then(|(_, dead_by)| dead_by));
        let (id, dead_by) = (run.id, run.dead_by);
        match turn(run, running, now) {
            Turn::Wait => break,
            Turn::TooLate => {
                begin_stop(tx, id, StopCause::Cancel, STARTING_DEADLINE);
                let Some((_, outcome)) = close(tx, id) else {
                    break;
                };
                // The next one has its place.
                closed = Some((id, dead_by));
                late.push((id, outcome));
            }
            Turn::Start(at) => start(tx, id, at, closed),
        }
    }
    for (id, outcome) in late.into_iter().rev() {
        chains::end(tx, id, outcome);
    }
}

/// A waiting run may start from `ready_at` on.
fn start(tx: &mut Tx<'_>, id: RunId, ready_at: Timestamp, closed: Option<Closed>) {
    let keys: Vec<ShardKey> = tx.state.shards_of(id).map(|row| row.shard.key).collect();
    for key in keys {
        if let Some(row) = tx.state.shards.get_mut(&key) {
            row.shard.ready_at = ready_at;
        }
    }
    let Some(run) = tx.state.runs.get_mut(&id) else {
        return;
    };
    let cause = how_gone(run.dead_by);
    run.waits = None;
    run.dead_by = None;
    run.ready_at = Some(ready_at);
    run.ver += 1;
    let (ver, state, job) = (run.ver, run.state.word(), run.job);
    count_active(tx.state, job, 0, -1);
    let data = told::released(ready_at, closed.map(|(run, _)| run));
    let happened = Happened {
        cause,
        data,
        ..Happened::new(Kind::RunReleased, state, state)
    };
    tx.event(Entity::Run(id), ver, happened);
}

/// So many more runs of the job are open, and so many more of them wait for others.
pub(super) fn count_active(state: &mut State, job: JobUid, by: i32, waiting: i32) {
    if let Some(row) = state.jobs.get_mut(&job) {
        Counts::of(&row.job).and(by, waiting).put(&mut row.job);
    }
}

/// The sums of a run's shards' progress; `expected` if any shard knows its own.
pub(super) fn progress(state: &State, run: RunId) -> Progress {
    let mut sum = Progress::default();
    for row in state
        .shards_of(run)
        .filter(|row| !row.shard.key.no.is_plan())
    {
        let p = &row.shard.progress;
        sum.done += p.done;
        sum.rate_milli += if row.shard.state == ShardState::Running {
            p.rate_milli
        } else {
            0
        };
        if let Some(expected) = p.expected {
            sum.expected = Some(sum.expected.unwrap_or(0) + expected);
        }
    }
    sum
}

/// Settles the run if nothing of it is open, and sees to what waits for that.
pub(super) fn settle_if_complete(tx: &mut Tx<'_>, id: RunId) -> Option<RunState> {
    let (closed, outcome) = close(tx, id)?;
    let job = tx.state.runs.get(&id)?.job;
    release(tx, job, Some(closed));
    chains::end(tx, id, outcome);
    Some(outcome)
}

/// Settles the run if nothing of it is open; its outcome.
fn close(tx: &mut Tx<'_>, id: RunId) -> Option<(Closed, RunState)> {
    let run = tx.state.runs.get(&id)?;
    let sums = progress(tx.state, id);
    let settled = settled(run, &sums)?;
    let data = told::settled(run, &settled);
    let outcome = settled.outcome;
    let now = tx.now;
    let run = tx.state.runs.get_mut(&id)?;
    let from = run.state;
    run.state = outcome;
    run.reason.clone_from(&settled.reason);
    run.ended_at = Some(now);
    run.ver += 1;
    let (ver, job) = (run.ver, run.job);
    let (waited, dead_by) = (run.waits.take().is_some(), run.dead_by);
    let (lane, round) = (run.backfill, run.round);
    if let Some(lane) = lane {
        backfills::closed(tx, lane, (id, round), outcome, true);
    } else {
        let leaks = outcome == RunState::Cancelled && zoo::is("cancel-leaks-active-run");
        count_active(tx.state, job, i32::from(leaks) - 1, -i32::from(waited));
    }
    let happened = Happened {
        cause: &settled.reason,
        data,
        ..Happened::new(Kind::RunSettled, from.word(), outcome.word())
    };
    tx.event(Entity::Run(id), ver, happened);
    Some(((id, dead_by), outcome))
}

pub(super) fn list(state: &State, filter: &RunFilter, page: &Page<RunId>) -> Vec<Run> {
    let before = page.after.unwrap_or(RunId(u64::MAX));
    state
        .runs
        .range(..before)
        .rev()
        .map(|(_, run)| run)
        .filter(|run| filter.job.is_none_or(|job| run.job == job))
        .filter(|run| filter.state.is_none_or(|state| run.state == state))
        .filter(|run| !filter.open || !run.state.is_closed() && run.backfill.is_none())
        .filter(|run| filter.backfill.is_none() || run.backfill == filter.backfill)
        .take(capped(page))
        .cloned()
        .collect()
}

pub(super) fn request_stop(
    tx: &mut Tx<'_>,
    fence: Option<&Fence>,
    id: RunId,
    cause: StopCause,
) -> RequestVerdict {
    let Some(run) = tx.state.runs.get(&id) else {
        return RequestVerdict::Missing;
    };
    let job = run.job;
    if let Some(fence) = fence {
        let right = fence.key == DutyKey::Trigger(partition_of(job));
        if !right || !tx.under(fence) {
            return RequestVerdict::OldTerm;
        }
    }
    let run = &tx.state.runs[&id];
    if run.state.is_closed() {
        return RequestVerdict::NotNow(run.state);
    }
    if run.stop.is_some() {
        return RequestVerdict::Already;
    }
    let (cause, detail) = stopped_by(run, cause, tx.now);
    RequestVerdict::Done(stop(tx, id, cause, detail))
}

/// Records the stop, cancels what waits, settles if that was all.
pub(super) fn stop(tx: &mut Tx<'_>, id: RunId, cause: StopCause, detail: &str) -> Option<RunState> {
    begin_stop(tx, id, cause, detail);
    settle_if_complete(tx, id)
}

/// Records the stop and cancels what waits.
fn begin_stop(tx: &mut Tx<'_>, id: RunId, cause: StopCause, detail: &str) {
    let now = tx.now;
    let Some(run) = tx.state.runs.get_mut(&id) else {
        return;
    };
    if run.stop.is_none() {
        run.stop = Some((cause, now));
        run.stop_detail = detail.to_owned();
        run.ver += 1;
        let (ver, state) = (run.ver, run.state.word());
        let data = told::stop_requested(cause, detail);
        let happened = Happened {
            cause: cause.word(),
            data,
            ..Happened::new(Kind::StopRequested, state, state)
        };
        tx.event(Entity::Run(id), ver, happened);
    }
    stop_waiting(tx, id, cause);
}

/// Cancels the shards of a run that wait for a grant.
pub(super) fn stop_waiting(tx: &mut Tx<'_>, id: RunId, cause: StopCause) {
    let waiting: Vec<ShardKey> = tx
        .state
        .shards_of(id)
        .filter(|row| row.shard.state.is_grantable())
        .map(|row| row.shard.key)
        .collect();
    for key in waiting {
        let now = tx.now;
        let Some(row) = tx.state.shards.get_mut(&key) else {
            continue;
        };
        let shard = &mut row.shard;
        let from = shard.state;
        shard.state = ShardState::Cancelled;
        shard.ended_at = Some(now);
        shard.ver += 1;
        let (ver, token) = (shard.ver, shard.token);
        if let Some(run) = tx.state.runs.get_mut(&id) {
            run.counters.open -= 1;
            run.counters.cancelled += 1;
        }
        if zoo::is("stop-without-event") {
            continue;
        }
        let happened = Happened {
            cause: cause.word(),
            token: Some(token),
            ..Happened::new(
                Kind::ShardStopped,
                from.word(),
                ShardState::Cancelled.word(),
            )
        };
        tx.event(Entity::Shard(key), ver, happened);
    }
}

pub(super) fn reopen(
    tx: &mut Tx<'_>,
    id: RunId,
    only: Option<&[ShardKey]>,
    ready_at: Timestamp,
    lane: Option<BackfillId>,
) -> RequestVerdict {
    let Some(run) = tx.state.runs.get(&id) else {
        return RequestVerdict::Missing;
    };
    let from = run.state;
    if !matches!(from, RunState::Failed | RunState::Partial) {
        return RequestVerdict::NotNow(from);
    }
    let keys: Vec<ShardKey> = tx
        .state
        .shards_of(id)
        .map(|row| &row.shard)
        .filter(|shard| may_reopen(shard.state, shard.discarded_at.is_some(), only.is_some()))
        .map(|shard| shard.key)
        .filter(|key| only.is_none_or(|only| only.contains(key)))
        .collect();
    if keys.is_empty() {
        return RequestVerdict::NotNow(from);
    }
    let Some(run) = tx.state.runs.get_mut(&id) else {
        return RequestVerdict::Missing;
    };
    run.state = RunState::Running;
    run.round += 1;
    run.ver += 1;
    run.stop = None;
    run.stop_detail = String::new();
    run.terms.deadline = None;
    run.terms.start_by = None;
    run.ended_at = None;
    run.failures = 0;
    run.reason = String::new();
    let before = run.backfill;
    run.backfill = lane.or(before);
    let (ver, round) = (run.ver, run.round);
    let data = told::reopened(round, keys.len(), run.backfill);
    let run = run.clone();
    backfills::opened(tx.state, &run);
    if let Some(lane) = before.filter(|_| before == run.backfill) {
        backfills::retried(tx.state, lane);
    }
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunReopened, from.word(), "running")
    };
    tx.event(Entity::Run(id), ver, happened);
    for key in keys {
        let Some(row) = tx.state.shards.get_mut(&key) else {
            continue;
        };
        let shard = &mut row.shard;
        let from = shard.state;
        shard.state = ShardState::Scheduled;
        shard.used = 0;
        shard.ready_at = ready_at;
        shard.ended_at = None;
        shard.discarded_at = None;
        shard.digest = String::new();
        shard.ver += 1;
        let (ver, token) = (shard.ver, shard.token);
        if let Some(run) = tx.state.runs.get_mut(&id) {
            run.counters.open += 1;
            match from {
                ShardState::Failed => run.counters.failed -= 1,
                _ => run.counters.cancelled -= 1,
            }
        }
        let happened = Happened {
            token: Some(token),
            ..Happened::new(
                Kind::ShardReopened,
                from.word(),
                ShardState::Scheduled.word(),
            )
        };
        tx.event(Entity::Shard(key), ver, happened);
    }
    RequestVerdict::Done(None)
}

pub(super) fn list_late(
    state: &State,
    now: Timestamp,
    partitions: &[u8],
    limit: usize,
) -> LateRuns {
    debug_assert!(partitions.iter().all(|p| *p < PARTITIONS));
    let open = |run: &&Run| !run.state.is_closed() && run.stop.is_none();
    let mine = |run: &&Run| partitions.contains(&partition_of(run.job));
    let open: Vec<&Run> = state
        .runs
        .values()
        .filter(|run| open(run) && mine(run))
        .collect();
    let over = open.iter().filter(|run| late(run, now).is_some());
    LateRuns {
        late: over
            .map(|run| (run.id, partition_of(run.job)))
            .take(limit)
            .collect(),
        next: open.iter().filter_map(|run| next_limit(run, now)).min(),
    }
}

pub(super) fn list_running(state: &State, run: RunId, limit: usize) -> Vec<Shard> {
    let running = state.shards_of(run).map(|row| &row.shard);
    let running = running.filter(|shard| shard.state == ShardState::Running);
    running.take(limit).cloned().collect()
}

pub(super) fn settle_complete(tx: &mut Tx<'_>, fences: &[Fence], limit: usize) -> Vec<RunId> {
    let complete: Vec<(RunId, JobUid)> = tx
        .state
        .runs
        .values()
        .filter(|run| !run.state.is_closed() && run.counters.open == 0)
        .map(|run| (run.id, run.job))
        .collect();
    let mut settled = Vec::new();
    for (id, job) in complete {
        let key = DutyKey::Trigger(partition_of(job));
        let fence = fences.iter().find(|f| f.key == key);
        if settled.len() < limit && fence.is_some_and(|fence| tx.under(fence)) {
            settle_if_complete(tx, id);
            settled.push(id);
        }
    }
    settled
}
