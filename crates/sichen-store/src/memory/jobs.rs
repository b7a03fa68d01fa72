//! Jobs, their revisions, and the high-water marks of their schedules.

use jiff::Timestamp;
use sichen_core::capacity::Uses;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Counting, Decision, DutyKey, Job, partition_of};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, ApplyJob, ApplyVerdict, CreateVerdict, Fence, Page,
};
use sichen_core::zoo;

use super::state::{Happened, JobRow, State, Tx};
use super::{calendars, capacities, capped, chains, namespaces, runs};

pub(super) fn apply(tx: &mut Tx<'_>, a: ApplyJob) -> ApplyVerdict {
    let existing = tx.state.live_job(&a.name).map(|row| row.job.clone());
    let (Some(job), Some(expected)) = (&existing, a.expected_ver) else {
        return if existing.is_none() && a.expected_ver.is_none() {
            create(tx, a)
        } else {
            ApplyVerdict::Conflict
        };
    };
    if job.ver != expected {
        return ApplyVerdict::Conflict;
    }
    if job.document == a.document {
        return ApplyVerdict::Unchanged(job.uid, job.revision);
    }
    let there = capacities::are_there(tx.state, &a.uses);
    if !there || !calendars::are_newest(tx.state, &a.calendars) {
        return ApplyVerdict::Conflict;
    }
    let (uid, counted) = (job.uid, a.counts_runs());
    if let Some(closing) = a.closing
        && advance(tx, &[], closing).is_none()
    {
        return ApplyVerdict::Conflict;
    }
    let Some(row) = tx.state.jobs.get_mut(&uid) else {
        return ApplyVerdict::Conflict;
    };
    let job = &mut row.job;
    job.revision = Revision(job.revision.0 + 1);
    job.ver += 1;
    job.document.clone_from(&a.document);
    job.next_due = a.next_due;
    job.zones.clone_from(&a.zones);
    row.revisions.insert(job.revision, a.document);
    row.begun.insert(job.revision, job.high_water);
    let (revision, ver, state) = (job.revision, job.ver, word(job));
    let zones = a.zones;
    calendars::use_in(tx, uid, a.calendars);
    capacities::use_in(tx, uid, &a.uses);
    let data = serde_json::json!({ "revision": revision.0, "zones": zones });
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, state, state)
    };
    tx.event(Entity::Job(uid), ver, happened);
    recount(tx.state, uid, counted);
    chains::apply(tx, uid, a.follow);
    ApplyVerdict::Updated(uid, revision)
}

/// Counts the open runs of a job as its new document wants it.
fn recount(state: &mut State, uid: JobUid, wanted: bool) {
    let Some(row) = state.jobs.get(&uid) else {
        return;
    };
    let counting = Counting::applied(wanted, row.job.waiting_runs);
    if counting != row.job.counting {
        let open = runs::open_of(state, uid);
        runs::count_as(state, uid, counting, open);
    }
}

pub(super) fn word(job: &Job) -> &'static str {
    if job.paused { "paused" } else { "live" }
}

fn create(tx: &mut Tx<'_>, a: ApplyJob) -> ApplyVerdict {
    let there = capacities::are_there(tx.state, &a.uses);
    if !there || !calendars::are_newest(tx.state, &a.calendars) {
        return ApplyVerdict::Conflict;
    }
    let uid = a.new_uid;
    let counting = Counting::applied(a.counts_runs(), 0);
    let revision = Revision(1);
    let job = Job {
        uid,
        name: a.name,
        revision,
        ver: 1,
        document: a.document.clone(),
        paused: false,
        high_water: a.high_water,
        next_due: a.next_due,
        chain: None,
        zones: a.zones,
        counting,
        active_runs: 0,
        waiting_runs: 0,
        created_at: tx.now,
    };
    let data = serde_json::json!({
        "revision": 1, "name": job.name.name.as_str(), "namespace": job.name.namespace.as_str(),
        "high_water": job.high_water.as_microsecond(),
    });
    let revisions = [(revision, a.document)].into();
    let begun = [(revision, job.high_water)].into();
    tx.state.jobs.insert(
        uid,
        JobRow {
            job,
            deleted: false,
            revisions,
            begun,
        },
    );
    calendars::use_in(tx, uid, a.calendars);
    capacities::use_in(tx, uid, &a.uses);
    let happened = Happened {
        data,
        cause: &a.cause,
        ..Happened::new(Kind::JobApplied, "", "live")
    };
    tx.event(Entity::Job(uid), 1, happened);
    chains::apply(tx, uid, a.follow);
    ApplyVerdict::Created(uid)
}

pub(super) fn list(state: &State, page: &Page<JobName>) -> Vec<Job> {
    let mut jobs: Vec<&Job> = state
        .jobs
        .values()
        .filter(|r| !r.deleted)
        .map(|r| &r.job)
        .collect();
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    let after = |job: &&&Job| page.after.as_ref().is_none_or(|after| job.name > *after);
    jobs.iter()
        .filter(after)
        .take(capped(page))
        .map(|j| (*j).clone())
        .collect()
}

pub(super) fn set_paused(
    tx: &mut Tx<'_>,
    paused: bool,
    closing: Advance,
    expected_ver: u32,
) -> ApplyVerdict {
    let uid = closing.job;
    let next_due = closing.next_due;
    match tx.state.jobs.get(&uid) {
        Some(row) if !row.deleted && row.job.ver == expected_ver => {
            if row.job.paused == paused {
                return ApplyVerdict::Unchanged(uid, row.job.revision);
            }
        }
        _ => return ApplyVerdict::Conflict,
    }
    if advance(tx, &[], closing).is_none() {
        return ApplyVerdict::Conflict;
    }
    let Some(row) = tx.state.jobs.get_mut(&uid) else {
        return ApplyVerdict::Conflict;
    };
    let from = word(&row.job);
    row.job.paused = paused;
    row.job.next_due = next_due;
    row.job.next_due = row.job.next_due_with(row.job.chain.as_ref());
    row.job.ver += 1;
    let (ver, to, revision) = (row.job.ver, word(&row.job), row.job.revision);
    let kind = if paused {
        Kind::JobPaused
    } else {
        Kind::JobResumed
    };
    tx.event(Entity::Job(uid), ver, Happened::new(kind, from, to));
    ApplyVerdict::Updated(uid, revision)
}

pub(super) fn delete(
    tx: &mut Tx<'_>,
    uid: JobUid,
    closing: Option<Advance>,
    expected_ver: u32,
) -> bool {
    let row = tx.state.jobs.get(&uid);
    if row.is_none_or(|row| row.deleted || row.job.ver != expected_ver) {
        return false;
    }
    if let Some(closing) = closing
        && (closing.job != uid || advance(tx, &[], closing).is_none())
    {
        return false;
    }
    let Some(row) = tx.state.jobs.get_mut(&uid) else {
        return false;
    };
    let from = word(&row.job);
    row.deleted = true;
    row.job.next_due = None;
    row.job.ver += 1;
    let ver = row.job.ver;
    calendars::use_in(tx, uid, Vec::new());
    capacities::use_in(tx, uid, &Uses::default());
    tx.event(
        Entity::Job(uid),
        ver,
        Happened::new(Kind::JobDeleted, from, "deleted"),
    );
    true
}

pub(super) fn list_due(
    state: &State,
    partitions: &[u8],
    until: Timestamp,
    limit: usize,
) -> Vec<Job> {
    let mut due: Vec<&Job> = state
        .jobs
        .values()
        // While time is held nothing is due.
        .filter(|r| !state.held && !r.deleted && !r.job.paused)
        .map(|r| &r.job)
        .filter(|j| j.next_due.is_some_and(|next| next <= until))
        .filter(|j| partitions.contains(&partition_of(j.uid)))
        .collect();
    due.sort_by_key(|j| (j.next_due, j.uid));
    due.into_iter().take(limit).cloned().collect()
}

pub(super) fn list_outdated(
    state: &State,
    partitions: &[u8],
    data: &str,
    limit: usize,
) -> Vec<Job> {
    let version = |job: &Job| job.zones.as_ref().map(|zones| zones.data.clone());
    let mut found: Vec<&Job> = state
        .jobs
        .values()
        .filter(|r| !state.held && !r.deleted && !r.job.paused)
        .map(|r| &r.job)
        .filter(|j| {
            j.zones
                .as_ref()
                .is_some_and(|zones| zones.is_older_than(data))
        })
        .filter(|j| partitions.contains(&partition_of(j.uid)))
        .collect();
    found.sort_by_key(|j| (version(j), j.uid));
    found.into_iter().take(limit).cloned().collect()
}

pub(super) fn advance_all(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    items: Vec<Advance>,
) -> Vec<AdvanceVerdict> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        let key = DutyKey::Trigger(partition_of(item.job));
        let fence = fences.iter().find(|f| f.key == key);
        if !fence.is_some_and(|fence| tx.under(fence)) {
            verdicts.push(AdvanceVerdict::OldTerm);
            continue;
        }
        let waits = tx.state.held
            || tx
                .state
                .jobs
                .get(&item.job)
                .is_none_or(|row| row.job.paused);
        if !waits && let Err(full) = namespaces::may_queue(tx.state, item.job, item.queues()) {
            verdicts.push(AdvanceVerdict::Full(full));
            continue;
        }
        let advanced = if waits {
            None
        } else {
            advance(tx, fences, item)
        };
        verdicts.push(advanced.map_or(AdvanceVerdict::Conflict, AdvanceVerdict::Advanced));
    }
    verdicts
}

/// Moves one mark; `None` and nothing written if what it was computed from has changed.
pub(super) fn advance(
    tx: &mut Tx<'_>,
    fences: &[Fence],
    item: Advance,
) -> Option<Vec<CreateVerdict>> {
    let row = tx
        .state
        .jobs
        .get_mut(&item.job)
        .filter(|row| !row.deleted)?;
    let job = &mut row.job;
    let holds = job.revision == item.revision
        && job.high_water == item.from
        && item.to >= item.from
        && item.pending == job.pending()
        && item.counted.is_none_or(|seen| seen.is_of(job));
    if !holds {
        return None;
    }
    if let Some(longer) = &item.lengthens
        && !lengthen(&mut tx.state.decisions, item.job, longer)
    {
        return None;
    }
    let job = &mut tx.state.jobs.get_mut(&item.job)?.job;
    let (chain, decided) = job.passed(item.to);
    job.high_water = item.to;
    job.next_due = item.next_due;
    job.chain = chain;
    if item.zones.is_some() {
        job.zones.clone_from(&item.zones);
    }
    job.ver += 1;
    let (ver, state) = (job.ver, word(job));
    let data = item.event_data();
    let happened = Happened {
        data,
        ..Happened::new(Kind::ScheduleAdvanced, state, state)
    };
    tx.event(Entity::Job(item.job), ver, happened);
    if !zoo::is("decision-without-row") {
        let decisions = item.decisions.into_iter().map(|d| (item.job, d));
        tx.state.decisions.extend(decisions);
    }
    // The variant writes the mark and the last run in two transactions, and dies in between.
    let lost = usize::from(zoo::is("mark-before-runs") && ver % 7 == 0);
    let kept = item.runs.len().saturating_sub(lost);
    let runs = item.runs.into_iter().take(kept);
    let verdicts = runs
        .map(|run| runs::create(tx, fences, run, true))
        .collect();
    if decided {
        chains::restart(tx, item.job);
    }
    Some(verdicts)
}

/// Makes a job's last record of skipped instants longer; false if that is another.
fn lengthen(decisions: &mut [(JobUid, Decision)], job: JobUid, longer: &Decision) -> bool {
    let skips = decisions
        .iter_mut()
        .filter(|(uid, d)| *uid == job && d.is_skip());
    let Some((_, last)) = skips.max_by_key(|(_, d)| (d.to, d.from)) else {
        return false;
    };
    let same = last.from == longer.from
        && last.reason == longer.reason
        && last.reference == longer.reference
        && last.to < longer.to;
    if same {
        last.to = longer.to;
        last.count += longer.count;
    }
    same
}

pub(super) fn list_revisions(
    state: &State,
    job: JobUid,
    page: &Page<Revision>,
) -> Vec<(Revision, Option<Timestamp>)> {
    let after = page.after.unwrap_or_default();
    let row = state.jobs.get(&job).into_iter();
    let revisions = row.flat_map(|row| row.begun.iter());
    revisions
        .filter(|(revision, _)| **revision > after)
        .take(capped(page))
        .map(|(revision, begun)| (*revision, Some(*begun)))
        .collect()
}
