//! What strains the cluster, as the store has it: slow runs, dead letters, capacities, sessions, duties.
//!
//! # Invariants
//! - A look costs the same however much there is: each rule reads so many rows at most, and what did not fit
//!   has its turn at the next look, where the limit says so.
//!
//! # Not here
//! When that is something to tell (`sichen_core::alert::judge::strain`).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::judge::strain;
use sichen_core::alert::{Alert, Finding, Phase, Rule, Settings};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Run, Session, Shard};
use sichen_core::port::{Error, Page, RunFilter, Store};

use super::look::{Turns, job_name};

/// Running runs that one look compares with what is usual; others have their turn.
const RUNNING: u32 = 50;
/// Runs of one state that may have dead letters: the newest.
const LETTERS: u32 = 100;
/// Within the time after which dead letters are told of, they are searched for so often.
const SEARCHES: i32 = 60;
/// Jobs told of by one rule that are looked at each time.
const TOLD: usize = 50;
/// Runs of such a job that are looked at, the newest.
const OWN: u32 = 10;
/// Shards of such a run among which one is looked for that was not discarded.
const SHARDS: u32 = 200;
/// Capacities that are looked at, the first by name.
const CAPACITIES: u32 = 200;
/// Waiters of a capacity among which the first is looked for.
const WAITERS: u32 = 100;

/// All of it.
pub(super) async fn strained(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    sessions: &[(Session, u32)],
    turns: &mut Turns,
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let on = |rule| settings.policy(rule).on;
    let mut findings = Vec::new();
    if on(Rule::Slower) {
        findings.extend(slower(store, settings, known, turns, now).await?);
    }
    if on(Rule::DeadLetters) {
        findings.extend(dead_letters(store, settings, known, turns, now).await?);
    }
    if on(Rule::CapacityExhausted) {
        let after = settings.policy(Rule::CapacityExhausted).after;
        findings.extend(exhausted(store, after, now).await?);
    }
    if on(Rule::NoLease) {
        let after = settings.policy(Rule::NoLease).after;
        findings.extend(strain::no_lease(sessions, after, now));
    }
    if on(Rule::NoOwner) || on(Rule::OwnerFlapping) {
        let (nodes, duties) = store.list_members().await?;
        findings.extend(strain::no_owner(&nodes, &duties, now));
        let flapping = settings.policy(Rule::OwnerFlapping);
        let terms = &mut turns.terms;
        findings.extend(terms.look(&duties, flapping.at_least, flapping.after, now));
    }
    Ok(findings)
}

/// Runs that run for longer than their jobs usually take.
async fn slower(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    turns: &mut Turns,
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let state = |state, job| RunFilter {
        job,
        state: Some(state),
        ..RunFilter::default()
    };
    let page = |after, limit| Page { after, limit };
    let running = store.list_runs(state(RunState::Running, None), page(turns.running, RUNNING));
    let mut running = running.await?;
    let is_last = running.len() < RUNNING as usize;
    turns.running = running.last().map(|run| run.id).filter(|_| !is_last);
    // Those of jobs that are told of are looked at each time: else they would seem to be over.
    for job in told(store, known, Rule::Slower).await? {
        let own = state(RunState::Running, Some(job));
        running.extend(store.list_runs(own, page(None, OWN)).await?);
    }
    running.sort_by_key(|run| run.id);
    running.dedup_by_key(|run| run.id);
    let slack = settings.policy(Rule::Slower).after;
    let mut findings = Vec::new();
    for run in &running {
        let age = run.started_at.map(|began| now.duration_since(began));
        if run.backfill.is_some() || age.is_none_or(|age| age <= slack) {
            continue;
        }
        let done = state(RunState::Succeeded, Some(run.job));
        let done = store.list_runs(done, page(None, strain::HISTORY)).await?;
        let own = done.iter().filter(|run| run.backfill.is_none());
        let lengths: Vec<SignedDuration> = own.filter_map(strain::length).collect();
        findings.extend(strain::slower(run, &lengths, slack, now));
    }
    Ok(findings)
}

/// Jobs with dead letters, as they were found by the last search: that is costly, and nothing hurries.
async fn dead_letters(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    turns: &mut Turns,
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let after = settings.policy(Rule::DeadLetters).after;
    let pause = (after / SEARCHES).min(SignedDuration::from_mins(5));
    let is_fresh = |(at, _): &(Timestamp, _)| now.duration_since(*at) < pause;
    if let Some((_, found)) = turns.letters.as_ref().filter(|found| is_fresh(found)) {
        return Ok(found.clone());
    }
    let runs = with_dead_letters(store, known, after, now).await?;
    let found = strain::dead_letters(&runs, after, now);
    turns.letters = Some((now, found.clone()));
    Ok(found)
}

/// Runs that ended so long ago, with shards that failed for good and were not discarded.
async fn with_dead_letters(
    store: &dyn Store,
    known: &[Alert],
    after: SignedDuration,
    now: Timestamp,
) -> Result<Vec<Run>, Error> {
    // Those of jobs that are told of are looked at though newer runs hide them.
    let told = told(store, known, Rule::DeadLetters).await?;
    let jobs = told.into_iter().map(|job| (Some(job), OWN));
    let mut runs = Vec::new();
    for (job, limit) in jobs.chain([(None, LETTERS)]) {
        for state in [RunState::Failed, RunState::Partial] {
            let filter = RunFilter {
                job,
                state: Some(state),
                ..RunFilter::default()
            };
            let page = Page { after: None, limit };
            runs.extend(store.list_runs(filter, page).await?);
        }
    }
    runs.sort_by_key(|run| run.id);
    runs.dedup_by_key(|run| run.id);
    let mut found = Vec::new();
    for run in runs {
        let is_old = run
            .ended_at
            .is_some_and(|at| now.duration_since(at) > after);
        if is_old && has_dead_letters(store, run.id).await? {
            found.push(run);
        }
    }
    Ok(found)
}

/// Jobs that are told of by `rule` and are there, the first [`TOLD`] by name.
async fn told(store: &dyn Store, known: &[Alert], rule: Rule) -> Result<Vec<JobUid>, Error> {
    let open = known
        .iter()
        .filter(|alert| alert.rule == rule && matches!(alert.phase, Phase::Pending | Phase::Open));
    let members = open.flat_map(|alert| alert.members.iter());
    let active = members
        .filter(|(_, m)| m.active)
        .map(|(subject, _)| subject);
    let names: BTreeSet<&String> = active.collect();
    let mut jobs = Vec::new();
    for name in names.into_iter().take(TOLD) {
        if let Some(name) = job_name(name)
            && let Some(job) = store.get_job(name).await?
        {
            jobs.push(job.uid);
        }
    }
    Ok(jobs)
}

async fn has_dead_letters(store: &dyn Store, run: RunId) -> Result<bool, Error> {
    let page = Page {
        after: None,
        limit: SHARDS,
    };
    let shards = store.list_shards(run, page).await?;
    let lies = |s: &Shard| s.state == ShardState::Failed && s.discarded_at.is_none();
    Ok(shards.iter().any(lies))
}

/// Capacities of which all is held while somebody waits.
async fn exhausted(
    store: &dyn Store,
    after: SignedDuration,
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let page = Page {
        after: None,
        limit: CAPACITIES,
    };
    let mut findings = Vec::new();
    for standing in store.list_capacities(page).await? {
        let units = standing.capacity.limits.units;
        if units.is_none_or(|units| standing.used < u64::from(units)) {
            continue;
        }
        let name = standing.capacity.name.clone();
        let waiters = store.list_waiters(name, WAITERS).await?;
        findings.extend(strain::exhausted(&standing, &waiters, after, now));
    }
    Ok(findings)
}
