//! Jobs, their revisions, and the high-water marks of their schedules.

use jiff::Timestamp;
use sichen_core::capacity::Uses;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Counting, Counts, Decision, DutyKey, Job, partition_of};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, CreateVerdict, Error, Fence, Page,
};
use sichen_core::schedule::zones::Zones;

use super::row::{JobRow, Row, at, blob, int, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{calendars, capacities, capped, chains, namespaces, runs, sql};

pub(super) fn word(paused: bool) -> &'static str {
    if paused { "paused" } else { "live" }
}

pub(super) fn apply(tx: &mut Tx<'_>, a: ApplyJob) -> Result<ApplyVerdict> {
    let job = match (tx.live_job(&a.name)?, a.expected_ver) {
        (None, None) => return create(tx, &a),
        (Some(job), Some(expected)) if job.ver == expected => job,
        _ => return Ok(ApplyVerdict::Conflict),
    };
    if job.document == a.document {
        return Ok(ApplyVerdict::Unchanged(job.uid, job.revision));
    }
    let there = capacities::are_there(tx, &a.uses)?;
    if !there || !calendars::are_newest(tx, &a.calendars)? {
        return Ok(ApplyVerdict::Conflict);
    }
    let counted = a.counts_runs();
    let (mut ver, mut begun) = (job.ver, job.high_water);
    if let Some(closing) = a.closing {
        begun = closing.to;
        if closing.job != job.uid || advance(tx, &[], closing)?.is_none() {
            return Ok(ApplyVerdict::Conflict);
        }
        ver = ver_of(tx, job.uid)?;
    }
    let revision = Revision(job.revision.0 + 1);
    let uid = blob(job.uid.0);
    let params = (
        uid,
        ver,
        revision.0,
        a.document.as_str(),
        opt_at(a.next_due),
        text(a.zones.as_ref())?,
    );
    tx.must(sql::UPDATE_JOB, params)?;
    let revised = (uid, revision.0, a.document.as_str(), at(begun));
    tx.must(sql::INSERT_REVISION, revised)?;
    calendars::use_in(tx, job.uid, &a.calendars)?;
    capacities::use_in(tx, job.uid, &a.uses)?;
    let data = serde_json::json!({ "revision": revision.0, "zones": a.zones });
    let state = word(job.paused);
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, state, state)
    };
    tx.event(&Entity::Job(job.uid), ver + 1, &happened)?;
    recount(tx, job.uid, counted)?;
    chains::apply(tx, job.uid, a.follow)?;
    Ok(ApplyVerdict::Updated(job.uid, revision))
}

/// Counts the open runs of a job as its new document wants it.
fn recount(tx: &Tx<'_>, uid: JobUid, wanted: bool) -> Result<()> {
    let Some(JobRow { job, .. }) = tx.job(uid)? else {
        return Ok(());
    };
    let counting = Counting::applied(wanted, job.waiting_runs);
    if counting != job.counting {
        let open = runs::open_of(tx, uid, u32::MAX)?;
        runs::set_counts(tx, uid, Counts::under(counting, &job, open))?;
    }
    Ok(())
}

/// Zones as their column keeps them.
fn text(zones: Option<&Zones>) -> Result<Option<String>> {
    let text = zones.map(serde_json::to_string).transpose();
    text.map_err(|e| Error::Corrupt(format!("a job's zones can't be written: {e}")))
}

/// The row's version once the stretch before a change is closed.
fn ver_of(tx: &Tx<'_>, uid: JobUid) -> Result<u32> {
    Ok(tx.job(uid)?.map_or(0, |row| row.job.ver))
}

fn create(tx: &mut Tx<'_>, a: &ApplyJob) -> Result<ApplyVerdict> {
    let uid = blob(a.new_uid.0);
    let there = capacities::are_there(tx, &a.uses)?;
    if tx.job(a.new_uid)?.is_some() || !there || !calendars::are_newest(tx, &a.calendars)? {
        return Ok(ApplyVerdict::Conflict);
    }
    let (namespace, name) = (a.name.namespace.as_str(), a.name.name.as_str());
    let params = (
        uid,
        namespace,
        name,
        a.document.as_str(),
        at(a.high_water),
        opt_at(a.next_due),
        at(tx.now),
        partition_of(a.new_uid),
        text(a.zones.as_ref())?,
        Counting::applied(a.counts_runs(), 0).word(),
    );
    tx.must(sql::INSERT_JOB, params)?;
    let revision = (uid, 1, a.document.as_str(), at(a.high_water));
    tx.must(sql::INSERT_REVISION, revision)?;
    let data = serde_json::json!({
        "revision": 1, "name": name, "namespace": namespace,
        "high_water": a.high_water.as_microsecond(),
    });
    calendars::add_uses(tx, a.new_uid, &a.calendars)?;
    capacities::add_uses(tx, a.new_uid, &a.uses)?;
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, "", "live")
    };
    tx.event(&Entity::Job(a.new_uid), 1, &happened)?;
    chains::apply(tx, a.new_uid, a.follow)?;
    Ok(ApplyVerdict::Created(a.new_uid))
}

pub(super) fn list(read: &Read<'_>, page: &Page<JobName>) -> Result<Vec<Job>> {
    let after = page.after.as_ref();
    let after = after.map_or(("", ""), |n| (n.namespace.as_str(), n.name.as_str()));
    let params = (after.0, after.1, capped(page));
    read.all(sql::LIST_JOBS, params, |row| Ok(row.job()?.job))
}

pub(super) fn set_paused(
    tx: &mut Tx<'_>,
    paused: bool,
    closing: Advance,
    expected_ver: u32,
) -> Result<ApplyVerdict> {
    let Some(row) = tx.job(closing.job)? else {
        return Ok(ApplyVerdict::Conflict);
    };
    let job = row.job;
    if row.deleted || job.ver != expected_ver {
        return Ok(ApplyVerdict::Conflict);
    }
    if job.paused == paused {
        return Ok(ApplyVerdict::Unchanged(job.uid, job.revision));
    }
    let next_due = closing.next_due;
    if advance(tx, &[], closing)?.is_none() {
        return Ok(ApplyVerdict::Conflict);
    }
    let closed = tx.job(job.uid)?.map_or(job, |row| row.job);
    let (ver, chain) = (closed.ver, closed.chain.as_ref());
    let job = Job {
        next_due,
        paused,
        ..closed.clone()
    };
    let next_due = job.next_due_with(chain);
    tx.must(
        sql::PAUSE_JOB,
        (blob(job.uid.0), ver, paused, opt_at(next_due)),
    )?;
    let kind = if paused {
        Kind::JobPaused
    } else {
        Kind::JobResumed
    };
    let happened = Happened::new(kind, word(!paused), word(paused));
    tx.event(&Entity::Job(job.uid), ver + 1, &happened)?;
    Ok(ApplyVerdict::Updated(job.uid, job.revision))
}

pub(super) fn delete(
    tx: &mut Tx<'_>,
    uid: JobUid,
    closing: Option<Advance>,
    expected_ver: u32,
) -> Result<bool> {
    let Some(row) = tx.job(uid)? else {
        return Ok(false);
    };
    if row.deleted || row.job.ver != expected_ver {
        return Ok(false);
    }
    let mut ver = expected_ver;
    if let Some(closing) = closing {
        if closing.job != uid || advance(tx, &[], closing)?.is_none() {
            return Ok(false);
        }
        ver = ver_of(tx, uid)?;
    }
    tx.must(sql::DELETE_JOB, (blob(uid.0), ver, at(tx.now)))?;
    calendars::use_in(tx, uid, &[])?;
    capacities::use_in(tx, uid, &Uses::default())?;
    let happened = Happened::new(Kind::JobDeleted, word(row.job.paused), "deleted");
    tx.event(&Entity::Job(uid), ver + 1, &happened)?;
    Ok(true)
}

/// Partitions as the JSON array that statements take.
pub(super) fn json_array(partitions: &[u8]) -> String {
    serde_json::Value::from(partitions.to_vec()).to_string()
}

pub(super) fn list_due(
    read: &Read<'_>,
    partitions: &[u8],
    until: Timestamp,
    limit: u32,
) -> Result<Vec<Job>> {
    if read.told.held {
        return Ok(Vec::new());
    }
    let params = |most| (at(until), json_array(partitions), most);
    read.sound_page(sql::LIST_DUE_JOBS, limit, params, |row| Ok(row.job()?.job))
}

pub(super) fn list_outdated(
    read: &Read<'_>,
    partitions: &[u8],
    data: &str,
    limit: u32,
) -> Result<Vec<Job>> {
    if read.told.held {
        return Ok(Vec::new());
    }
    let params = |most| (data, json_array(partitions), most);
    let job = |row: Row<'_>| Ok(row.job()?.job);
    read.sound_page(sql::LIST_OUTDATED_JOBS, limit, params, job)
}

pub(super) fn list_decisions(
    read: &Read<'_>,
    job: JobUid,
    from: Timestamp,
    limit: u32,
) -> Result<Vec<Decision>> {
    read.all(sql::LIST_DECISIONS, (blob(job.0), at(from), limit), |row| {
        row.decision(0)
    })
}

pub(super) fn insert_decision(tx: &Tx<'_>, job: JobUid, d: &Decision) -> Result<()> {
    let params = (
        blob(job.0),
        at(d.from),
        at(d.to),
        int(d.count),
        d.reason.as_str(),
        d.reference.as_str(),
    );
    tx.must(sql::INSERT_DECISION, params)
}

/// Makes a job's last record of skipped instants longer; false if that is another.
fn lengthen(tx: &Tx<'_>, job: JobUid, longer: &Decision) -> Result<bool> {
    let params = (
        blob(job.0),
        at(longer.from),
        at(longer.to),
        int(longer.count),
        longer.reason.as_str(),
        longer.reference.as_str(),
    );
    tx.run_one(sql::LENGTHEN_DECISION, params)
}

pub(super) fn advance_all(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    items: Vec<Advance>,
) -> Result<Vec<AdvanceVerdict>> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        let key = DutyKey::Trigger(partition_of(item.job));
        let current = match fences.iter().find(|f| f.key == key) {
            Some(fence) => tx.under(fence)?,
            None => false,
        };
        if !current {
            verdicts.push(AdvanceVerdict::OldTerm);
            continue;
        }
        let job = tx.job(item.job)?.filter(|row| !row.job.paused);
        let waits = tx.told.held || job.is_none();
        if let Some(row) = job.filter(|_| !waits)
            && let Err(full) = namespaces::may_queue(tx, &row.job.name.namespace, item.queues())?
        {
            verdicts.push(AdvanceVerdict::Full(full));
            continue;
        }
        let advanced = if waits {
            None
        } else {
            advance(tx, fences, item)?
        };
        verdicts.push(advanced.map_or(AdvanceVerdict::Conflict, AdvanceVerdict::Advanced));
    }
    Ok(verdicts)
}

/// Moves one mark; `None` and nothing written if what it was computed from has changed.
pub(super) fn advance(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    item: Advance,
) -> Result<Option<Vec<CreateVerdict>>> {
    let Some(row) = tx.job(item.job)?.filter(|row| !row.deleted) else {
        return Ok(None);
    };
    let job = row.job;
    let holds = job.revision == item.revision
        && job.high_water.as_microsecond() == item.from.as_microsecond()
        && item.to >= item.from
        && item.pending == job.pending()
        && item.counted.is_none_or(|seen| seen.is_of(&job));
    if !holds {
        return Ok(None);
    }
    if let Some(longer) = &item.lengthens
        && !lengthen(tx, job.uid, longer)?
    {
        return Ok(None);
    }
    let (chain, decided) = job.passed(item.to);
    let params = (
        blob(job.uid.0),
        job.ver,
        at(item.from),
        at(item.to),
        opt_at(item.next_due),
        chains::text(chain.as_ref())?,
        text(item.zones.as_ref())?,
    );
    tx.must(sql::ADVANCE_JOB, params)?;
    let data = item.event_data();
    let state = word(job.paused);
    let happened = Happened {
        data,
        ..Happened::new(Kind::ScheduleAdvanced, state, state)
    };
    tx.event(&Entity::Job(job.uid), job.ver + 1, &happened)?;
    for decision in &item.decisions {
        insert_decision(tx, job.uid, decision)?;
    }
    let runs: Result<Vec<_>> = item
        .runs
        .into_iter()
        .map(|run| runs::create(tx, fences, run, true))
        .collect();
    if decided {
        chains::restart(tx, job.uid)?;
    }
    runs.map(Some)
}
