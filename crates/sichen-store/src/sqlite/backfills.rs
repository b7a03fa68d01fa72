//! Backfills: asked for, moved on, turned; and the records that their runs fill.

use jiff::Timestamp;
use sichen_core::backfill::{
    Advance, AdvanceVerdict, Backfill, Counts, Facts, MAX_OPEN_BACKFILLS, NewBackfill, NewVerdict,
    Start, State, Turn, TurnVerdict, turned,
};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, JobUid, Occasion, Revision, RunId};
use sichen_core::lifecycle::{RunState, told};
use sichen_core::model::{DutyKey, partition_of};
use sichen_core::port::{CreateVerdict, Fence, NewRun, Page, RequestVerdict};

use super::jobs::json_array;
use super::row::{Row, at, blob, int, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, namespaces, runs, sql};

pub(super) fn create(tx: &mut Tx<'_>, new: &NewBackfill) -> Result<NewVerdict> {
    if tx.job(new.job)?.is_none_or(|row| row.deleted) {
        return Ok(NewVerdict::NoJob);
    }
    let wanted = &new.wanted;
    let same_key = (blob(new.job.0), new.key.as_str());
    if let Some(old) = tx.one(sql::FIND_BACKFILL, same_key, |row| row.backfill())? {
        return Ok(if old.wanted == *wanted {
            NewVerdict::Exists(old.id)
        } else {
            NewVerdict::OtherRequest(old.id)
        });
    }
    let open = tx.count(sql::COUNT_OPEN_BACKFILLS, [blob(new.job.0)])?;
    if open as usize >= MAX_OPEN_BACKFILLS {
        return Ok(NewVerdict::TooMany);
    }
    let id = BackfillId(tx.next_id());
    let actor = tx.actor().to_owned();
    let params = rusqlite::params![
        int(id.0),
        blob(new.job.0),
        new.key,
        actor,
        at(wanted.from),
        at(wanted.to),
        wanted.mode.word(),
        wanted.order.word(),
        wanted.parallelism,
        wanted.rate,
        wanted.reason,
        at(tx.now),
        partition_of(new.job),
        wanted.verify.as_ref().map(|verify| verify.job.as_str()),
        wanted.verify.as_ref().map(|verify| verify.rate),
    ];
    tx.must(sql::INSERT_BACKFILL, params)?;
    let data = told::backfill_created(new.job, wanted);
    let happened = Happened {
        data,
        ..Happened::new(Kind::BackfillCreated, "", State::Running.word())
    };
    tx.event(&Entity::Backfill(id), 1, &happened)?;
    Ok(NewVerdict::Created(id))
}

pub(super) fn get(read: &Read<'_>, id: BackfillId) -> Result<Option<Backfill>> {
    read.one(sql::GET_BACKFILL, [int(id.0)], |row| row.backfill())
}

pub(super) fn list(read: &Read<'_>, job: JobUid, page: &Page<BackfillId>) -> Result<Vec<Backfill>> {
    let before = page.after.map_or(i64::MAX, |id| int(id.0));
    let params = (before, capped(page), blob(job.0));
    read.all(sql::LIST_BACKFILLS, params, |row| row.backfill())
}

pub(super) fn list_running(
    read: &Read<'_>,
    partitions: &[u8],
    page: &Page<BackfillId>,
) -> Result<Vec<Backfill>> {
    let after = int(page.after.unwrap_or_default().0);
    let params = |most| (json_array(partitions), after, most);
    let backfill = |row: Row<'_>| row.backfill();
    read.sound_page(sql::LIST_RUNNING_BACKFILLS, capped(page), params, backfill)
}

pub(super) fn list_revisions(
    read: &Read<'_>,
    job: JobUid,
    page: &Page<Revision>,
) -> Result<Vec<(Revision, Option<Timestamp>)>> {
    let params = (blob(job.0), page.after.unwrap_or_default().0, capped(page));
    read.all(sql::LIST_REVISIONS, params, |row| {
        Ok((Revision(row.u32(0)?), row.opt_at(1)?))
    })
}

pub(super) fn list_instants(
    read: &Read<'_>,
    job: JobUid,
    instants: &[Timestamp],
) -> Result<Vec<Facts>> {
    let instants: Vec<i64> = instants.iter().map(|at| at.as_microsecond()).collect();
    let instants = serde_json::Value::from(instants).to_string();
    let params = (blob(job.0), instants);
    read.all(sql::LIST_INSTANTS, params, |row| row.instant())
}

pub(super) fn turn(
    tx: &mut Tx<'_>,
    fence: Option<&Fence>,
    id: BackfillId,
    turn: Turn,
    cause: &str,
) -> Result<TurnVerdict> {
    let Some(backfill) = get(tx, id)? else {
        return Ok(TurnVerdict::Missing);
    };
    if let Some(fence) = fence {
        let right = fence.key == DutyKey::Trigger(partition_of(backfill.job));
        if !right || !tx.under(fence)? {
            return Ok(TurnVerdict::OldTerm);
        }
    }
    let to = match turned(backfill.state, turn) {
        Ok(to) => to,
        Err(verdict) => return Ok(verdict),
    };
    let ended_at = to.is_over().then(|| at(tx.now));
    let kept = if to == State::Running { "" } else { cause };
    let params = (int(id.0), backfill.ver, to.word(), ended_at, kept);
    tx.must(sql::TURN_BACKFILL, params)?;
    let happened = Happened {
        cause,
        ..Happened::new(turn.kind(), backfill.state.word(), to.word())
    };
    tx.event(&Entity::Backfill(id), backfill.ver + 1, &happened)?;
    Ok(TurnVerdict::Done)
}

pub(super) fn advance(tx: &mut Tx<'_>, fence: &Fence, step: Advance) -> Result<AdvanceVerdict> {
    let Some(backfill) = get(tx, step.id)? else {
        return Ok(AdvanceVerdict::Conflict);
    };
    let right = fence.key == DutyKey::Trigger(partition_of(backfill.job));
    if !right || !tx.under(fence)? {
        return Ok(AdvanceVerdict::OldTerm);
    }
    let job = tx.job(backfill.job)?.filter(|row| !row.deleted);
    let revision = job.as_ref().map(|row| row.job.revision);
    if !step.holds(&backfill, revision) {
        return Ok(AdvanceVerdict::Conflict);
    }
    if let Some(row) = job
        && let Err(full) = namespaces::may_queue(tx, &row.job.name.namespace, step.queues())?
    {
        return Ok(AdvanceVerdict::Full(full));
    }
    let (to, kind) = step.leads_to();
    let mut counts = Counts {
        left: step.left,
        ..Counts::default()
    };
    let (mut written, mut reopened) = (Vec::new(), Vec::new());
    for start in step.starts {
        match start {
            Start::Write(new) => match write(tx, *new, step.id, &mut counts)? {
                Some(run) => written.push(run.0),
                None => counts.left += 1,
            },
            Start::Reopen(run, round) => {
                if reopen(tx, run, round, step.id)? {
                    counts.reopened += 1;
                    reopened.push(run.0);
                } else {
                    counts.left += 1;
                }
            }
        }
    }
    let started = u32::try_from(written.len() + reopened.len()).unwrap_or(u32::MAX);
    let place = step.place;
    let params = rusqlite::params![
        int(step.id.0),
        step.ver,
        to.word(),
        step.finish.then(|| at(tx.now)),
        at(place.settled),
        at(place.cursor),
        at(place.top),
        opt_at(step.next_at),
        int(counts.created),
        int(counts.filled),
        int(counts.reopened),
        int(counts.reruns),
        int(counts.left),
    ];
    tx.must(sql::ADVANCE_BACKFILL, params)?;
    let data = serde_json::json!({
        "settled": place.settled.as_microsecond(),
        "cursor": place.cursor.as_microsecond(), "top": place.top.as_microsecond(),
        "written": written, "reopened": reopened, "left": counts.left,
    });
    let happened = Happened {
        data,
        ..Happened::new(kind, State::Running.word(), to.word())
    };
    tx.event(&Entity::Backfill(step.id), step.ver + 1, &happened)?;
    Ok(AdvanceVerdict::Advanced(started))
}

/// Writes the run of an instant unless it is there.
fn write(
    tx: &mut Tx<'_>,
    new: NewRun,
    lane: BackfillId,
    counts: &mut Counts,
) -> Result<Option<RunId>> {
    let new = NewRun {
        backfill: Some(lane),
        ..new
    };
    let (job, occasion) = (new.job, new.occasion.clone());
    let CreateVerdict::Created(run, _) = runs::create(tx, &[], new, true)? else {
        return Ok(None);
    };
    match occasion {
        Occasion::Planned { rerun: 1.., .. } => counts.reruns += 1,
        Occasion::Planned { at, rerun: 0 } => {
            counts.created += 1;
            counts.filled += u64::from(fill(tx, job, at, run)?);
        }
        Occasion::Manual { .. } => counts.created += 1,
    }
    Ok(Some(run))
}

/// Retries a failed run in the lane of a backfill.
fn reopen(tx: &mut Tx<'_>, id: RunId, round: u32, lane: BackfillId) -> Result<bool> {
    if tx.run_row(id)?.is_none_or(|run| run.round != round) {
        return Ok(false);
    }
    let now = tx.now;
    let verdict = runs::reopen(tx, id, None, now, Some(lane))?;
    Ok(verdict == RequestVerdict::Done(None))
}

/// As [`runs::create`], for those who ask for a run: one of a skipped instant fills its record.
pub(super) fn create_run(tx: &mut Tx<'_>, fences: &[Fence], new: NewRun) -> Result<CreateVerdict> {
    let (job, occasion) = (new.job, new.occasion.clone());
    let verdict = runs::create(tx, fences, new, false)?;
    if let (CreateVerdict::Created(run, _), Occasion::Planned { at, rerun: 0 }) =
        (&verdict, occasion)
    {
        fill(tx, job, at, *run)?;
    }
    Ok(verdict)
}

/// Notes in the record of a skipped instant that it has its run; whether there is one.
fn fill(tx: &Tx<'_>, job: JobUid, instant: Timestamp, run: RunId) -> Result<bool> {
    let skip = tx.one(sql::FIND_SKIP, (blob(job.0), at(instant)), |row| {
        Ok((row.int(0)?, row.at(1)?))
    })?;
    match skip {
        Some((id, from)) if from <= instant => tx.run_one(sql::FILL_DECISION, (id, int(run.0))),
        Some(_) | None => Ok(false),
    }
}

/// Of a rerun: its instant and its number.
pub(super) fn rerun(occasion: &Occasion) -> Option<(Timestamp, u32)> {
    match occasion {
        Occasion::Planned { at, rerun } if *rerun > 0 => Some((*at, *rerun)),
        Occasion::Planned { .. } | Occasion::Manual { .. } => None,
    }
}

/// A run (in this round) of a lane closed, or was written in this state (`was_open`: it was there).
pub(super) fn closed(
    tx: &Tx<'_>,
    lane: BackfillId,
    (run, round): (RunId, u32),
    state: RunState,
    was_open: bool,
) -> Result<()> {
    let [succeeded, failed, cancelled] = outcome(state);
    let open = i32::from(!state.is_closed()) - i32::from(was_open);
    let params = (int(lane.0), open, succeeded, failed, cancelled);
    tx.must(sql::COUNT_BACKFILL, params)?;
    if state == RunState::Succeeded {
        let params = (int(run.0), round, int(lane.0), at(tx.now));
        tx.run(sql::INSERT_CHECK, params)?;
    }
    Ok(())
}

/// A failed run is retried in a lane, which `counted` it as failed if it was its own before.
pub(super) fn reopened(tx: &Tx<'_>, lane: BackfillId, counted: bool) -> Result<()> {
    let params = (int(lane.0), 1, 0, -i32::from(counted), 0);
    tx.must(sql::COUNT_BACKFILL, params)
}

/// What an outcome adds to succeeded, failed and cancelled.
fn outcome(state: RunState) -> [i32; 3] {
    match state {
        RunState::Succeeded => [1, 0, 0],
        RunState::Failed | RunState::Partial => [0, 1, 0],
        RunState::Cancelled => [0, 0, 1],
        RunState::Scheduled | RunState::Running => [0, 0, 0],
    }
}
