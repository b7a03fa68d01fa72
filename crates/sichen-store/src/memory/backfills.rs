//! Backfills: asked for, moved on, turned; and the records that their runs fill.

use jiff::Timestamp;
use sichen_core::backfill::check::{Check, CheckState, Checks};
use sichen_core::backfill::{
    Advance, AdvanceVerdict, Backfill, Counts, Facts, LastRun, MAX_OPEN_BACKFILLS, NewBackfill,
    NewVerdict, Outcomes, Place, Record, Start, State as BackfillState, Turn, TurnVerdict, turned,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, Occasion, RunId};
use sichen_core::lifecycle::{RunState, told};
use sichen_core::model::{Decision, DutyKey, Run, partition_of};
use sichen_core::port::{CreateVerdict, Fence, NewRun, Page, RequestVerdict};
use sichen_core::restore::TAKEN_AS_DONE;
use sichen_core::zoo;

use super::state::{Happened, State, Tx};
use super::{capped, namespaces, runs};

pub(super) fn create(tx: &mut Tx<'_>, new: NewBackfill) -> NewVerdict {
    if tx.state.jobs.get(&new.job).is_none_or(|row| row.deleted) {
        return NewVerdict::NoJob;
    }
    let of_job = |b: &&Backfill| b.job == new.job;
    let same_key = tx
        .state
        .backfills
        .values()
        .find(|b| of_job(b) && b.key == new.key);
    if let Some(old) = same_key {
        return if old.wanted == new.wanted {
            NewVerdict::Exists(old.id)
        } else {
            NewVerdict::OtherRequest(old.id)
        };
    }
    let open = tx
        .state
        .backfills
        .values()
        .filter(|b| of_job(b) && !b.state.is_over());
    if open.count() >= MAX_OPEN_BACKFILLS {
        return NewVerdict::TooMany;
    }
    let id = BackfillId(tx.state.next_id());
    let wanted = new.wanted;
    let data = told::backfill_created(new.job, &wanted);
    let backfill = Backfill {
        id,
        job: new.job,
        key: new.key,
        actor: tx.op.actor.clone(),
        place: Place::at(wanted.from),
        wanted,
        ver: 1,
        state: BackfillState::Running,
        next_at: None,
        counts: Counts::default(),
        runs: Outcomes::default(),
        checks: Checks::default(),
        next_check_at: None,
        created_at: tx.now,
        ended_at: None,
        cause: String::new(),
    };
    tx.state.backfills.insert(id, backfill);
    let happened = Happened {
        data,
        ..Happened::new(Kind::BackfillCreated, "", BackfillState::Running.word())
    };
    tx.event(Entity::Backfill(id), 1, happened);
    NewVerdict::Created(id)
}

pub(super) fn list(state: &State, job: JobUid, page: &Page<BackfillId>) -> Vec<Backfill> {
    let before = page.after.unwrap_or(BackfillId(u64::MAX));
    let newest = state.backfills.range(..before).rev().map(|(_, b)| b);
    let of_job = newest.filter(|b| b.job == job);
    of_job.take(capped(page)).cloned().collect()
}

pub(super) fn list_running(
    state: &State,
    partitions: &[u8],
    page: &Page<BackfillId>,
) -> Vec<Backfill> {
    let after = page.after.unwrap_or_default();
    let running = state.backfills.values().filter(|b| b.id > after);
    let running = running.filter(|b| goes_on(b));
    let mine = running.filter(|b| partitions.contains(&partition_of(b.job)));
    mine.take(capped(page)).cloned().collect()
}

/// Whether the duty has anything to do for it.
fn goes_on(backfill: &Backfill) -> bool {
    let checks = &backfill.checks;
    let finished = backfill.state == BackfillState::Finished;
    backfill.state == BackfillState::Running || checks.open > 0 || checks.due > 0 && finished
}

pub(super) fn turn(
    tx: &mut Tx<'_>,
    fence: Option<&Fence>,
    id: BackfillId,
    turn: Turn,
    cause: &str,
) -> TurnVerdict {
    let Some(backfill) = tx.state.backfills.get(&id) else {
        return TurnVerdict::Missing;
    };
    let from = backfill.state;
    if let Some(fence) = fence {
        let right = fence.key == DutyKey::Trigger(partition_of(backfill.job));
        if !right || !tx.under(fence) {
            return TurnVerdict::OldTerm;
        }
    }
    let to = match turned(from, turn) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    let now = tx.now;
    let Some(backfill) = tx.state.backfills.get_mut(&id) else {
        return TurnVerdict::Missing;
    };
    backfill.state = to;
    backfill.ver += 1;
    backfill.ended_at = to.is_over().then_some(now);
    backfill.cause = if to == BackfillState::Running {
        String::new()
    } else {
        cause.to_owned()
    };
    let ver = backfill.ver;
    let happened = Happened {
        cause,
        ..Happened::new(turn.kind(), from.word(), to.word())
    };
    tx.event(Entity::Backfill(id), ver, happened);
    TurnVerdict::Done
}

pub(super) fn advance(tx: &mut Tx<'_>, fence: &Fence, step: Advance) -> AdvanceVerdict {
    let Some(backfill) = tx.state.backfills.get(&step.id) else {
        return AdvanceVerdict::Conflict;
    };
    let job = backfill.job;
    let right = fence.key == DutyKey::Trigger(partition_of(job));
    if !right || !tx.under(fence) {
        return AdvanceVerdict::OldTerm;
    }
    let backfill = &tx.state.backfills[&step.id];
    let revision = tx.state.jobs.get(&job).filter(|row| !row.deleted);
    let revision = revision.map(|row| row.job.revision);
    if !step.holds(backfill, revision) {
        return AdvanceVerdict::Conflict;
    }
    if let Err(full) = namespaces::may_queue(tx.state, job, step.queues()) {
        return AdvanceVerdict::Full(full);
    }
    let (to, kind) = step.leads_to();
    let mut counts = Counts {
        left: step.left,
        ..Counts::default()
    };
    let (mut written, mut reopened) = (Vec::new(), Vec::new());
    for start in step.starts {
        match start {
            Start::Write(new) => match write(tx, *new, step.id, &mut counts) {
                Some(run) => written.push(run.0),
                None => counts.left += 1,
            },
            Start::Reopen(run, round) => {
                if reopen(tx, run, round, step.id) {
                    counts.reopened += 1;
                    reopened.push(run.0);
                } else {
                    counts.left += 1;
                }
            }
        }
    }
    let started = u32::try_from(written.len() + reopened.len()).unwrap_or(u32::MAX);
    let data = serde_json::json!({
        "settled": step.place.settled.as_microsecond(),
        "cursor": step.place.cursor.as_microsecond(), "top": step.place.top.as_microsecond(),
        "written": written, "reopened": reopened, "left": counts.left,
    });
    let now = tx.now;
    let Some(backfill) = tx.state.backfills.get_mut(&step.id) else {
        return AdvanceVerdict::Conflict;
    };
    backfill.place = step.place;
    backfill.next_at = step.next_at;
    backfill.ver += 1;
    add(&mut backfill.counts, &counts);
    backfill.state = to;
    backfill.ended_at = step.finish.then_some(now);
    let ver = backfill.ver;
    let happened = Happened {
        data,
        ..Happened::new(kind, BackfillState::Running.word(), to.word())
    };
    tx.event(Entity::Backfill(step.id), ver, happened);
    AdvanceVerdict::Advanced(started)
}

fn add(counts: &mut Counts, by: &Counts) {
    counts.created += by.created;
    counts.filled += by.filled;
    counts.reopened += by.reopened;
    counts.reruns += by.reruns;
    counts.left += by.left;
}

/// Writes the run of an instant unless it is there.
fn write(tx: &mut Tx<'_>, new: NewRun, lane: BackfillId, counts: &mut Counts) -> Option<RunId> {
    let new = NewRun {
        backfill: Some(lane),
        ..new
    };
    let (job, occasion) = (new.job, new.occasion.clone());
    let CreateVerdict::Created(run, _) = runs::create(tx, &[], new, true) else {
        return None;
    };
    match occasion {
        Occasion::Planned { rerun: 1.., .. } => counts.reruns += 1,
        Occasion::Planned { at, rerun: 0 } => {
            counts.created += 1;
            counts.filled += u64::from(fill(tx, job, at, run));
        }
        Occasion::Manual { .. } => counts.created += 1,
    }
    Some(run)
}

/// Retries a failed run in the lane of a backfill.
fn reopen(tx: &mut Tx<'_>, run: RunId, round: u32, lane: BackfillId) -> bool {
    if tx.state.runs.get(&run).is_none_or(|run| run.round != round) {
        return false;
    }
    let now = tx.now;
    runs::reopen(tx, run, None, now, Some(lane)) == RequestVerdict::Done(None)
}

/// As [`runs::create`], for those who ask for a run: one of a skipped instant fills its record.
pub(super) fn create_run(tx: &mut Tx<'_>, fences: &[Fence], new: NewRun) -> CreateVerdict {
    let (job, occasion) = (new.job, new.occasion.clone());
    let verdict = runs::create(tx, fences, new, false);
    if let (CreateVerdict::Created(run, _), Occasion::Planned { at, rerun: 0 }) =
        (&verdict, occasion)
    {
        fill(tx, job, at, *run);
    }
    verdict
}

/// Notes in the record of a skipped instant that it has its run; whether there is one.
fn fill(tx: &mut Tx<'_>, job: JobUid, at: Timestamp, run: RunId) -> bool {
    let Some(place) = skip_of(tx.state, job, at) else {
        return false;
    };
    let (_, decision) = &mut tx.state.decisions[place];
    if decision.filled == decision.count {
        return false;
    }
    decision.filled += 1;
    decision.filled_by = Some(run);
    true
}

/// The place of the record of skipped instants that holds `at`: they do not overlap.
fn skip_of(state: &State, job: JobUid, at: Timestamp) -> Option<usize> {
    let records = state.decisions.iter().enumerate();
    let skips = records.filter(|(_, (uid, d))| *uid == job && d.is_skip() && d.to >= at);
    let first = skips.min_by_key(|(place, (_, d))| (d.to, d.from, *place));
    first
        .filter(|(_, (_, d))| d.from <= at)
        .map(|(place, _)| place)
}

/// A run was opened in its lane.
pub(super) fn opened(state: &mut State, run: &Run) {
    match run.backfill {
        None => {
            let by = 1 + i32::from(zoo::is("run-counted-twice"));
            runs::count_active(state, run.job, by, i32::from(run.waits.is_some()));
        }
        Some(id) => {
            if let Some(backfill) = state.backfills.get_mut(&id) {
                backfill.runs.open += 1;
            }
        }
    }
}

/// A run (in this round) of a lane closed, or was written closed (`was_open`).
pub(super) fn closed(
    tx: &mut Tx<'_>,
    lane: BackfillId,
    (run, round): (RunId, u32),
    outcome: RunState,
    was_open: bool,
) {
    let now = tx.now;
    let Some(backfill) = tx.state.backfills.get_mut(&lane) else {
        return;
    };
    if outcome == RunState::Succeeded && backfill.wanted.verify.is_some() {
        let check = Check {
            run,
            round,
            backfill: lane,
            state: CheckState::Due,
            by: None,
            counts: None,
            why: String::new(),
            at: now,
        };
        tx.state.checks.insert((run, round), check);
        backfill.checks.moved(None, CheckState::Due);
    }
    let runs = &mut backfill.runs;
    runs.open -= u32::from(was_open);
    match outcome {
        RunState::Succeeded => runs.succeeded += 1,
        RunState::Failed | RunState::Partial => runs.failed += 1,
        RunState::Cancelled => runs.cancelled += 1,
        RunState::Scheduled | RunState::Running => {}
    }
}

/// A failed run of a lane is being retried in it.
pub(super) fn retried(state: &mut State, lane: BackfillId) {
    if let Some(backfill) = state.backfills.get_mut(&lane) {
        backfill.runs.failed = backfill.runs.failed.saturating_sub(1);
    }
}

pub(super) fn list_instants(state: &State, job: JobUid, instants: &[Timestamp]) -> Vec<Facts> {
    instants.iter().map(|at| facts(state, job, *at)).collect()
}

fn facts(state: &State, job: JobUid, at: Timestamp) -> Facts {
    let of_instant = state.runs.values().filter(|run| run.job == job);
    let reruns = of_instant.filter_map(|run| match run.occasion {
        Occasion::Planned { at: planned, rerun } if planned == at => Some((rerun, run)),
        _ => None,
    });
    let newest = reruns.max_by_key(|(rerun, _)| *rerun);
    let tomb = |d: &Decision| d.reason == Decision::REMOVED && d.to == at;
    let removed = state
        .decisions
        .iter()
        .any(|(uid, d)| *uid == job && tomb(d));
    // That a run was removed goes before what was decided of the instant before it ran.
    let record = match skip_of(state, job, at) {
        _ if removed => Some(Record::Removed),
        Some(place) if state.decisions[place].1.reason == TAKEN_AS_DONE => Some(Record::Removed),
        Some(place) if state.decisions[place].1.reason == "coalesced" => Some(Record::Covered),
        Some(_) => Some(Record::Skipped),
        None => None,
    };
    Facts {
        at,
        run: newest.map(|(rerun, run)| LastRun {
            id: run.id,
            rerun,
            state: run.state,
            round: run.round,
        }),
        record,
    }
}
