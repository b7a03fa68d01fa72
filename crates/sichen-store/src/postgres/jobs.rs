//! Jobs, their revisions, and the high-water marks of their schedules.

use jiff::Timestamp;
use sichen_core::capacity::Uses;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Counting, Decision, DutyKey, Job, partition_of};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, CreateVerdict, Error, Fence, Page,
};
use sichen_core::schedule::zones::Zones;

use super::param::params;
use super::row::{Row, at, int, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{calendars, capacities, capped, chains, namespaces, runs, sql};

pub(super) fn word(paused: bool) -> &'static str {
    if paused { "paused" } else { "live" }
}

pub(super) async fn apply(tx: &mut Tx, a: ApplyJob) -> Result<ApplyVerdict> {
    let job = match (tx.live_job(&a.name).await?, a.expected_ver) {
        (None, None) => return create(tx, &a).await,
        (Some(job), Some(expected)) if job.ver == expected => job,
        _ => return Ok(ApplyVerdict::Conflict),
    };
    if job.document == a.document {
        return Ok(ApplyVerdict::Unchanged(job.uid, job.revision));
    }
    let there = capacities::are_there(tx, &a.uses).await?;
    if !there || !calendars::are_newest(tx, &a.calendars).await? {
        return Ok(ApplyVerdict::Conflict);
    }
    let counted = a.counts_runs();
    let (mut ver, mut begun) = (job.ver, job.high_water);
    if let Some(closing) = a.closing {
        begun = closing.to;
        if closing.job != job.uid || advance(tx, &[], closing).await?.is_none() {
            return Ok(ApplyVerdict::Conflict);
        }
        ver = ver_of(tx, job.uid).await?;
    }
    let revision = Revision(job.revision.0 + 1);
    let uid = job.uid.0;
    let params = (
        uid,
        ver,
        revision.0,
        a.document.as_str(),
        opt_at(a.next_due),
        text(a.zones.as_ref())?,
    );
    tx.must(sql::UPDATE_JOB, params).await?;
    tx.job_changed(job.uid);
    let revised = (uid, revision.0, a.document.as_str(), at(begun));
    tx.must(sql::INSERT_REVISION, revised).await?;
    calendars::use_in(tx, job.uid, &a.calendars).await?;
    capacities::use_in(tx, job.uid, &a.uses).await?;
    let data = serde_json::json!({ "revision": revision.0, "zones": a.zones });
    let state = word(job.paused);
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, state, state)
    };
    tx.event(&Entity::Job(job.uid), ver + 1, &happened)?;
    tx.recount(job.uid, counted).await?;
    chains::apply(tx, job.uid, a.follow).await?;
    Ok(ApplyVerdict::Updated(job.uid, revision))
}

/// Zones as their column keeps them.
fn text(zones: Option<&Zones>) -> Result<Option<String>> {
    let text = zones.map(serde_json::to_string).transpose();
    text.map_err(|e| Error::Corrupt(format!("a job's zones can't be written: {e}")))
}

/// The row's version once the stretch before a change is closed.
async fn ver_of(tx: &Tx, uid: JobUid) -> Result<u32> {
    Ok(tx.job(uid).await?.map_or(0, |row| row.job.ver))
}

async fn create(tx: &mut Tx, a: &ApplyJob) -> Result<ApplyVerdict> {
    let uid = a.new_uid.0;
    let there = capacities::are_there(tx, &a.uses).await?;
    if tx.job(a.new_uid).await?.is_some()
        || !there
        || !calendars::are_newest(tx, &a.calendars).await?
    {
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
    tx.must(sql::INSERT_JOB, params).await?;
    let revision = (uid, 1, a.document.as_str(), at(a.high_water));
    tx.must(sql::INSERT_REVISION, revision).await?;
    let data = serde_json::json!({
        "revision": 1, "name": name, "namespace": namespace,
        "high_water": a.high_water.as_microsecond(),
    });
    calendars::add_uses(tx, a.new_uid, &a.calendars).await?;
    capacities::add_uses(tx, a.new_uid, &a.uses).await?;
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, "", "live")
    };
    tx.event(&Entity::Job(a.new_uid), 1, &happened)?;
    chains::apply(tx, a.new_uid, a.follow).await?;
    Ok(ApplyVerdict::Created(a.new_uid))
}

pub(super) async fn list(read: &Read, page: &Page<JobName>) -> Result<Vec<Job>> {
    let after = page.after.as_ref();
    let after = after.map_or(("", ""), |n| (n.namespace.as_str(), n.name.as_str()));
    let params = (after.0, after.1, capped(page));
    read.all(sql::LIST_JOBS, params, |row| Ok(row.job()?.job))
        .await
}

pub(super) async fn set_paused(
    tx: &mut Tx,
    paused: bool,
    closing: Advance,
    expected_ver: u32,
) -> Result<ApplyVerdict> {
    let Some(row) = tx.job(closing.job).await? else {
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
    if advance(tx, &[], closing).await?.is_none() {
        return Ok(ApplyVerdict::Conflict);
    }
    let closed = tx.job(job.uid).await?.map_or(job, |row| row.job);
    let (ver, chain) = (closed.ver, closed.chain.as_ref());
    let job = Job {
        next_due,
        paused,
        ..closed.clone()
    };
    let next_due = job.next_due_with(chain);
    tx.must(sql::PAUSE_JOB, (job.uid.0, ver, paused, opt_at(next_due)))
        .await?;
    tx.job_changed(job.uid);
    let kind = if paused {
        Kind::JobPaused
    } else {
        Kind::JobResumed
    };
    let happened = Happened::new(kind, word(!paused), word(paused));
    tx.event(&Entity::Job(job.uid), ver + 1, &happened)?;
    Ok(ApplyVerdict::Updated(job.uid, job.revision))
}

pub(super) async fn delete(
    tx: &mut Tx,
    uid: JobUid,
    closing: Option<Advance>,
    expected_ver: u32,
) -> Result<bool> {
    let Some(row) = tx.job(uid).await? else {
        return Ok(false);
    };
    if row.deleted || row.job.ver != expected_ver {
        return Ok(false);
    }
    let mut ver = expected_ver;
    if let Some(closing) = closing {
        if closing.job != uid || advance(tx, &[], closing).await?.is_none() {
            return Ok(false);
        }
        ver = ver_of(tx, uid).await?;
    }
    tx.must(sql::DELETE_JOB, (uid.0, ver, at(tx.now))).await?;
    tx.job_changed(uid);
    calendars::use_in(tx, uid, &[]).await?;
    capacities::use_in(tx, uid, &Uses::default()).await?;
    let happened = Happened::new(Kind::JobDeleted, word(row.job.paused), "deleted");
    tx.event(&Entity::Job(uid), ver + 1, &happened)?;
    Ok(true)
}

/// Partitions as the array that statements take.
pub(super) fn array(partitions: &[u8]) -> Vec<i64> {
    partitions.iter().map(|p| i64::from(*p)).collect()
}

pub(super) async fn list_due(
    read: &Read,
    partitions: &[u8],
    until: Timestamp,
    limit: u32,
) -> Result<Vec<Job>> {
    let params = |most: u32| (at(until), array(partitions), most, read.clock());
    let job = |row: Row<'_>| Ok(row.job()?.job);
    read.sound_page(sql::LIST_DUE_JOBS, limit, params, job)
        .await
}

pub(super) async fn list_outdated(
    read: &Read,
    partitions: &[u8],
    data: &str,
    limit: u32,
) -> Result<Vec<Job>> {
    if read.told().held {
        return Ok(Vec::new());
    }
    let params = |most: u32| (data, array(partitions), most);
    let job = |row: Row<'_>| Ok(row.job()?.job);
    read.sound_page(sql::LIST_OUTDATED_JOBS, limit, params, job)
        .await
}

pub(super) async fn list_decisions(
    read: &Read,
    job: JobUid,
    from: Timestamp,
    limit: u32,
) -> Result<Vec<Decision>> {
    read.all(sql::LIST_DECISIONS, (job.0, at(from), limit), |row| {
        row.decision(0)
    })
    .await
}

pub(super) async fn insert_decision(tx: &Tx, job: JobUid, d: &Decision) -> Result<()> {
    let params = (
        job.0,
        at(d.from),
        at(d.to),
        int(d.count),
        d.reason.as_str(),
        d.reference.as_str(),
    );
    tx.must(sql::INSERT_DECISION, params).await
}

/// Makes a job's last record of skipped instants longer; false if that is another.
async fn lengthen(tx: &Tx, job: JobUid, longer: &Decision) -> Result<bool> {
    let params = (
        job.0,
        at(longer.from),
        at(longer.to),
        int(longer.count),
        longer.reason.as_str(),
        longer.reference.as_str(),
    );
    tx.run_one(sql::LENGTHEN_DECISION, params).await
}

pub(super) async fn advance_all(
    tx: &mut Tx,
    fences: &[Fence],
    items: Vec<Advance>,
) -> Result<Vec<AdvanceVerdict>> {
    let runs = items.iter().flat_map(|item| &item.runs);
    tx.look_for_runs(&Vec::from_iter(runs)).await?;
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        let key = DutyKey::Trigger(partition_of(item.job));
        let current = match fences.iter().find(|f| f.key == key) {
            Some(fence) => tx.under(fence).await?,
            None => false,
        };
        if !current {
            verdicts.push(AdvanceVerdict::OldTerm);
            continue;
        }
        let job = tx.job(item.job).await?.filter(|row| !row.job.paused);
        let waits = tx.told().held || job.is_none();
        if let Some(row) = job.filter(|_| !waits) {
            let may = namespaces::may_queue(tx, &row.job.name.namespace, item.queues());
            if let Err(full) = may.await? {
                verdicts.push(AdvanceVerdict::Full(full));
                continue;
            }
        }
        let advanced = if waits {
            None
        } else {
            advance(tx, fences, item).await?
        };
        verdicts.push(advanced.map_or(AdvanceVerdict::Conflict, AdvanceVerdict::Advanced));
    }
    Ok(verdicts)
}

/// Moves one mark; `None` and nothing written if what it was computed from has changed.
pub(super) async fn advance(
    tx: &mut Tx,
    fences: &[Fence],
    item: Advance,
) -> Result<Option<Vec<CreateVerdict>>> {
    let Some(row) = tx.job(item.job).await?.filter(|row| !row.deleted) else {
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
        && !lengthen(tx, job.uid, longer).await?
    {
        return Ok(None);
    }
    let (chain, decided) = job.passed(item.to);
    if tx.gathered(|gathered| gathered.advances(job.uid.0)) {
        // A second step of one job comes after the first.
        tx.press().await?;
    }
    let params = params![
        job.uid.0,
        job.ver,
        at(item.from),
        at(item.to),
        opt_at(item.next_due),
        chains::text(chain.as_ref())?,
        text(item.zones.as_ref())?,
    ];
    tx.gathered(|gathered| gathered.advance(job.uid.0, params));
    tx.job_advanced(job.uid, item.to, item.next_due, chain, item.zones.clone());
    let data = item.event_data();
    let state = word(job.paused);
    let happened = Happened {
        data,
        ..Happened::new(Kind::ScheduleAdvanced, state, state)
    };
    tx.event(&Entity::Job(job.uid), job.ver + 1, &happened)?;
    for decision in &item.decisions {
        insert_decision(tx, job.uid, decision).await?;
    }
    let verdicts = runs::create_all(tx, fences, item.runs, true).await?;
    if decided {
        chains::restart(tx, job.uid).await?;
    }
    Ok(Some(verdicts))
}
