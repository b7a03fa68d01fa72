//! Runs: written, stopped, settled, reopened.

use jiff::Timestamp;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, ShardKey, ShardNo};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::settle;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{DutyKey, Run, partition_of};
use sichen_core::name::Name;
use sichen_core::port::{
    CreateVerdict, Error, Fence, Granted, LateRuns, NewRun, Page, RequestVerdict, RunFilter,
};

use super::jobs::json_array;
use super::row::{at, blob, int, not_before, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, leases, sql};

/// Shards written by one statement.
const CHUNK: usize = 5_000;

pub(super) fn create(tx: &mut Tx<'_>, fences: &[Fence], new: NewRun) -> Result<CreateVerdict> {
    let occasion = new.occasion.key();
    if let Some((id, digest)) = tx.run_of(new.job, &occasion)? {
        let same = digest == new.digest;
        return Ok(if same {
            CreateVerdict::Exists(id)
        } else {
            CreateVerdict::OtherRequest(id)
        });
    }
    let job = match tx.job(new.job)? {
        Some(row) if !row.deleted && row.job.revision == new.revision => row.job,
        _ => return Ok(CreateVerdict::Conflict),
    };
    let plan = matches!(new.shards.as_slice(), [Descriptor::Plan { .. }]);
    let count = u32::try_from(new.shards.len()).unwrap_or(u32::MAX);
    let holder = match new.born_leased {
        Some(session) if count == 1 => {
            let pool = DutyKey::Pool(new.terms.pool.clone());
            let current = match fences.iter().find(|f| f.key == pool) {
                Some(fence) => tx.is_current(fence)?,
                None => false,
            };
            let can = current && leases::can_hold(tx, session, &new.terms.pool)?.is_ok();
            can.then_some(session)
        }
        _ => None,
    };
    let state = match (count, holder) {
        (0, _) => RunState::Succeeded,
        (_, Some(_)) => RunState::Running,
        (_, None) => RunState::Scheduled,
    };
    let id = RunId(tx.next_id());
    let total = if plan { 0 } else { count };
    let terms = &new.terms;
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
            terms.priority.saturating_neg(),
            terms.parallelism,
            terms.parameters,
            terms.counts_must_match,
            opt_at(new.deadline(state == RunState::Running, tx.now)),
            state.word(),
            total,
            count,
            new.digest,
            at(tx.now),
            (state == RunState::Running).then(|| at(tx.now)),
            state.is_closed().then(|| at(tx.now)),
            partition_of(new.job),
        ],
    )?;
    let data = serde_json::json!({
        "job": new.job.to_string(), "occasion": occasion, "revision": new.revision.0,
        "total": total, "plan": plan,
    });
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunCreated, "", state.word())
    };
    tx.event(&Entity::Run(id), 1, &happened)?;
    if !state.is_closed() {
        count_active(tx, new.job, 1)?;
    }
    let first = if plan { ShardNo::PLAN.0 } else { 0 };
    insert_shards(tx, id, &terms.pool, first, &new.shards, new.ready_at)?;
    let Some(session) = holder else {
        return Ok(CreateVerdict::Created(id, None));
    };
    let key = ShardKey::new(id, first);
    let Some(row) = tx.shard(key)? else {
        return Err(Error::Corrupt(format!(
            "shard {key} is gone in its own transaction"
        )));
    };
    let granted: Granted = leases::hand_over(tx, row, session, new.timeouts, true)?;
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

fn count_active(tx: &Tx<'_>, job: JobUid, by: i32) -> Result<()> {
    tx.must(sql::COUNT_ACTIVE_RUNS, (blob(job.0), by))
}

/// Settles the run if nothing of it is open.
pub(super) fn settle_if_complete(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunState>> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(None);
    };
    if run.state.is_closed() || run.counters.open > 0 {
        return Ok(None);
    }
    // The sums are read only where they decide something: they cost a walk over the shards.
    let sum = if run.terms.counts_must_match {
        tx.progress(id)?
    } else {
        Default::default()
    };
    let counts_match = !run.terms.counts_must_match || sum.done == sum.expected.unwrap_or(0);
    let stop = run.stop.map(|(cause, _)| cause);
    let Some(outcome) = settle(&run.counters, stop, counts_match) else {
        return Ok(None);
    };
    let reason = match (outcome, stop) {
        (RunState::Failed, Some(cause)) => cause.word().to_owned(),
        (RunState::Failed, None) if !counts_match && run.counters.failed == 0 => {
            format!(
                "done {} of {} expected",
                sum.done,
                sum.expected.unwrap_or(0)
            )
        }
        _ => String::new(),
    };
    tx.must(
        sql::SETTLE_RUN,
        (int(id.0), outcome.word(), reason.as_str(), at(tx.now)),
    )?;
    count_active(tx, run.job, -1)?;
    let c = run.counters;
    let data = serde_json::json!({
        "total": c.total, "succeeded": c.succeeded, "failed": c.failed, "cancelled": c.cancelled,
        "counts_match": counts_match,
    });
    let happened = Happened {
        cause: &reason,
        data,
        ..Happened::new(Kind::RunSettled, run.state.word(), outcome.word())
    };
    tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    Ok(Some(outcome))
}

pub(super) fn list(read: &Read<'_>, filter: &RunFilter, page: &Page<RunId>) -> Result<Vec<Run>> {
    let before = page.after.map_or(i64::MAX, |id| int(id.0));
    let limit = capped(page);
    match (filter.job, filter.state) {
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
    Ok(RequestVerdict::Done(stop(tx, id, cause)?))
}

/// Records the stop, cancels what waits, settles if that was all.
pub(super) fn stop(tx: &mut Tx<'_>, id: RunId, cause: StopCause) -> Result<Option<RunState>> {
    let Some(run) = tx.run_row(id)? else {
        return Ok(None);
    };
    if run.stop.is_none() {
        tx.must(sql::STOP_RUN, (int(id.0), cause.word(), at(tx.now)))?;
        let data = serde_json::json!({ "stop": cause.word() });
        let state = run.state.word();
        let happened = Happened {
            cause: cause.word(),
            data,
            ..Happened::new(Kind::StopRequested, state, state)
        };
        tx.event(&Entity::Run(id), run.ver + 1, &happened)?;
    }
    stop_waiting(tx, id, cause)?;
    settle_if_complete(tx, id)
}

/// The parts of a closed or waiting shard's row that reopening and stopping look at.
struct Head {
    key: ShardKey,
    state: ShardState,
    ver: u32,
    token: u64,
}

fn heads(tx: &Tx<'_>, statement: &str, run: RunId) -> Result<Vec<Head>> {
    tx.all(statement, [int(run.0)], |row| {
        Ok(Head {
            key: ShardKey::new(run, row.i32(0)?),
            state: row.shard_state(1)?,
            ver: row.u32(2)?,
            token: row.u64(3)?,
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
        token: Some(sichen_core::ids::Token(head.token)),
        ..Happened::new(kind, head.state.word(), to.word())
    };
    tx.event(&Entity::Shard(head.key), head.ver + 1, &happened)
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
    closed.retain(|head| only.as_ref().is_none_or(|only| only.contains(&head.key)));
    if closed.is_empty() {
        return Ok(RequestVerdict::NotNow(from));
    }
    let failed = closed
        .iter()
        .filter(|head| head.state == ShardState::Failed)
        .count();
    let (failed, cancelled) = (int(failed as u64), int((closed.len() - failed) as u64));
    tx.must(sql::REOPEN_RUN, (int(id.0), from.word(), failed, cancelled))?;
    count_active(tx, run.job, 1)?;
    let data = serde_json::json!({ "round": run.round + 1, "shards": closed.len() });
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
    let partitions = json_array(partitions);
    let params = (at(read.now), &partitions, limit);
    let mut late = read.all(sql::LIST_LATE_RUNS, params, |row| {
        let partition = u8::try_from(row.u32(1)?).unwrap_or(u8::MAX);
        Ok((RunId(row.u64(0)?), partition))
    })?;
    late.sort_unstable();
    let params = (at(read.now), &partitions);
    let next = read.one(sql::GET_NEXT_DEADLINE, params, |row| row.at(0))?;
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
