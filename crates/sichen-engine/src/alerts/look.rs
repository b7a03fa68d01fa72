//! What is wrong, as the store has it.
//!
//! # Invariants
//! - A look costs the same however much fails: [`MAX_RUNS`] runs and [`MAX_JUDGED`] jobs are read at most.
//!   A job that was not reached stays as it is told.
//!
//! # Not here
//! What is made of it (`sichen_core::alert`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::judge::{self, LOOK_BACK, Outcome};
use sichen_core::alert::{Alert, Finding, Key, Member, Phase, Rule, Settings};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::ids::JobUid;
use sichen_core::lease::has_expired;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Failure, Run};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Error, Page, RunFilter, Span, Store};
use sichen_core::timekeeping::Standing;

/// Runs without success that one look reads.
pub const MAX_RUNS: u32 = 1_000;
/// Jobs that are judged in one look.
pub const MAX_JUDGED: usize = 300;
/// Runs of a job by which it is judged.
const RUNS: u32 = 20;
/// Runs that have not begun by which pools are known.
const WAITING: u32 = 200;
/// Shards of a failed run among which one that failed is looked for.
const SHARDS: u32 = 200;

/// Jobs that must succeed: what is written of them, and which have not for too long.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub keep: Vec<Alert>,
    pub forget: Vec<Key>,
    pub findings: Vec<Finding>,
}

/// Since when each watched job has had no success.
pub(super) async fn watch<'a>(
    store: &dyn Store,
    settings: &Settings,
    known: impl Iterator<Item = &'a Alert>,
    now: Timestamp,
) -> Result<Watched, Error> {
    let mut known: BTreeMap<Key, &Alert> = known.map(|alert| (alert.key(), alert)).collect();
    let mut watched = Watched::default();
    if !settings.policy(Rule::NoSuccess).on {
        return Ok(watched);
    }
    for (job, within) in &settings.no_success {
        let new = Alert::watched(job, now);
        let before = known.remove(&new.key()).map(|alert| alert.since);
        let success = last_success(store, job).await?;
        let since = success.into_iter().chain(before).max().unwrap_or(now);
        if before != Some(since) {
            watched.keep.push(Alert::watched(job, since));
        }
        let finding = judge::no_success(job, since, *within, now);
        watched.findings.extend(finding);
    }
    watched.forget.extend(known.into_keys());
    Ok(watched)
}

async fn last_success(store: &dyn Store, job: &JobName) -> Result<Option<Timestamp>, Error> {
    let Some(job) = store.get_job(job.clone()).await? else {
        return Ok(None);
    };
    let filter = RunFilter {
        job: Some(job.uid),
        state: Some(RunState::Succeeded),
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: RUNS,
    };
    let runs = store.list_runs(filter, page).await?;
    let of_now = runs.iter().filter(|run| run.backfill.is_none());
    Ok(of_now.filter_map(|run| run.ended_at).max())
}

/// What failed, was missed or is late; what is known already is looked at again.
pub(super) async fn findings(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let span = Span {
        past: LOOK_BACK,
        ahead: SignedDuration::ZERO,
        part: SignedDuration::from_secs(1),
    };
    let mut findings = judge::overview(&store.get_overview(now, span).await?);
    let told = store.clock().await?;
    if told.standing() == Standing::Ahead {
        findings.push(judge::clock_step(told.wall.duration_since(told.now), now));
    }
    let of_jobs = [Rule::Failures, Rule::NotStarted];
    if of_jobs.iter().any(|rule| settings.policy(*rule).on) {
        findings.extend(jobs(store, settings, known, now).await?);
    }
    Ok(findings)
}

/// Jobs whose newest run had no success.
async fn jobs(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    let members = members(known);
    let since = now.checked_sub(LOOK_BACK).unwrap_or(Timestamp::MIN);
    let recent = store.list_unsuccessful_runs(since, MAX_RUNS).await?;
    let mut jobs: BTreeMap<JobUid, JobName> = BTreeMap::new();
    for run in recent.iter().filter(|run| run.backfill.is_none()) {
        jobs.insert(run.job, run.job_name.clone());
    }
    let named: BTreeSet<String> = jobs.values().map(JobName::to_string).collect();
    let mut findings = Vec::new();
    // Those that are told of first: else a storm would hide that they are well again.
    let mut judged = 0;
    for (subject, (key, member)) in members.iter().filter(|(s, _)| !named.contains(**s)) {
        if judged >= MAX_JUDGED {
            findings.push(as_it_was(key, subject, member));
            continue;
        }
        judged += 1;
        if let Some(job) = job_name(subject)
            && let Some(job) = store.get_job(job).await?
        {
            let found = judge_job(store, settings, job.uid, Some((key, *member))).await?;
            findings.extend(found);
        }
    }
    for (uid, name) in jobs {
        let subject = name.to_string();
        let before = members
            .get(subject.as_str())
            .map(|(key, member)| (key, *member));
        if judged >= MAX_JUDGED {
            findings.extend(before.map(|(key, member)| as_it_was(key, &subject, member)));
            continue;
        }
        judged += 1;
        findings.extend(judge_job(store, settings, uid, before).await?);
    }
    Ok(findings)
}

/// The jobs that are told of as failing, and by which alert.
fn members(known: &[Alert]) -> BTreeMap<&str, (Key, &Member)> {
    let told = known.iter().filter(|alert| {
        let of_jobs = matches!(alert.rule, Rule::Failures | Rule::NotStarted);
        of_jobs && matches!(alert.phase, Phase::Pending | Phase::Open)
    });
    let members = told.flat_map(|alert| {
        let active = alert.members.iter().filter(|(_, m)| m.active);
        active.map(|(subject, member)| (subject.as_str(), (alert.key(), member)))
    });
    members.collect()
}

fn as_it_was((rule, group): &Key, subject: &str, member: &Member) -> Finding {
    Finding {
        rule: *rule,
        group: group.clone(),
        subject: subject.to_owned(),
        cause: member.cause.clone(),
        since: member.since,
    }
}

async fn judge_job(
    store: &dyn Store,
    settings: &Settings,
    job: JobUid,
    before: Option<(&Key, &Member)>,
) -> Result<Option<Finding>, Error> {
    let filter = RunFilter {
        job: Some(job),
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: RUNS,
    };
    let runs = store.list_runs(filter, page).await?;
    Ok(match judge::outcome(&runs) {
        Outcome::Fine => None,
        Outcome::Failing(n, run) => {
            if n < settings.policy(Rule::Failures).in_a_row.min(RUNS) {
                return Ok(None);
            }
            let mut finding = judge::failed(run, failure(store, run).await?.as_ref());
            // A job that fails otherwise by now has not recovered: it stays where it is told of.
            if let Some((_, group)) = before
                .map(|(key, _)| key)
                .filter(|key| key.0 == finding.rule)
            {
                finding.group.clone_from(group);
            }
            Some(finding)
        }
        Outcome::NotStarted(run) => Some(judge::not_started(run)),
        Outcome::Unknown => {
            let (key, member) = before.unzip();
            let subject = runs.first().map(|run| run.job_name.to_string());
            match (key, member, subject) {
                (Some(key), Some(member), Some(subject)) => Some(as_it_was(key, &subject, member)),
                _ => None,
            }
        }
    })
}

/// The failure of the first shard that failed, if it is among the first.
async fn failure(store: &dyn Store, run: &Run) -> Result<Option<Failure>, Error> {
    let page = Page {
        after: None,
        limit: SHARDS,
    };
    let shards = store.list_shards(run.id, page).await?;
    let mut failed = shards.into_iter().filter(|s| s.state == ShardState::Failed);
    Ok(failed.find_map(|shard| shard.failure))
}

fn job_name(subject: &str) -> Option<JobName> {
    let (namespace, name) = subject.split_once('/').unwrap_or(("default", subject));
    JobName::new(namespace, name).ok()
}

/// Pools where shards wait and no worker is.
pub(super) async fn pools(
    store: &dyn Store,
    pools: Vec<Name>,
    now: Timestamp,
) -> Result<Vec<Finding>, Error> {
    // One that no worker was ever in is known by the runs that wait for it.
    let filter = RunFilter {
        state: Some(RunState::Scheduled),
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: WAITING,
    };
    let waiting = store.list_runs(filter, page).await?;
    let waiting = waiting.into_iter().map(|run| run.terms.pool);
    let pools: BTreeSet<Name> = pools.into_iter().chain(waiting).collect();
    let sessions = store.list_sessions(None).await?;
    let live = sessions
        .iter()
        .filter(|(s, _)| !has_expired(s.expires_at, now));
    let manned: BTreeSet<&Name> = live.map(|(session, _)| &session.pool).collect();
    let window = Window {
        total: 1,
        lane: 1,
        job: 1,
    };
    let mut findings = Vec::new();
    for pool in pools.into_iter().filter(|pool| !manned.contains(pool)) {
        let ready = store
            .list_ready(pool.clone(), Place::FIRST, window, 1)
            .await?;
        if !ready.is_empty() {
            findings.push(judge::no_worker(&pool, now));
        }
    }
    Ok(findings)
}
