//! What is wrong, as the store has it.
//!
//! # Invariants
//! - A look costs the same however much fails: [`MAX_RUNS`] runs and [`MAX_JUDGED`] jobs are read at most.
//!   What did not fit has its turn at the next look, and a job that is told of stays so until then.
//! - Jobs that are told of already leave room for [`MAX_NEW`] that are not.
//!
//! # Not here
//! What is made of it (`sichen_core::alert`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::judge::{self, Outcome, look_back, strain};
use sichen_core::alert::{Alert, Finding, Key, Member, Phase, Rule, Seen, Settings};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::lease::has_expired;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Failure, Run, Session};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Error, Page, RunFilter, Span, Store};
use sichen_core::timekeeping::Standing;

/// Runs without success that one look reads.
pub const MAX_RUNS: u32 = 1_000;
/// Jobs that are judged in one look.
pub const MAX_JUDGED: usize = 300;
/// Of those, jobs that are not told of yet.
pub const MAX_NEW: usize = 200;
/// Ended runs of a job by which it is judged.
const RUNS: usize = 20;
/// How many runs of a job are read for them, at a time: those of backfills and those that run still don't
/// count, and there may be many.
const PAGES: [u32; 4] = [25, 100, 400, 400];
/// Runs that have not begun by which pools are known.
const WAITING: u32 = 200;
/// Waiting runs of a pool among which the one is looked for that waits for the longest, one of each job.
const HEADS: u32 = 100;
/// Shards of a failed run among which one that failed is looked for.
const SHARDS: u32 = 200;

/// Whose turn it is where not all fit into one look, and what was said of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The last job that was looked at of those that are not told of.
    new: String,
    /// The same of those that are.
    told: String,
    /// Whether it was said that not all fit.
    cut: bool,
    /// Whether it was said that conditions are not told of.
    pub dropped: bool,
    /// The last run that was looked at of those that run.
    pub(super) running: Option<RunId>,
    /// In whose hands duties were.
    pub(super) terms: strain::Terms,
    /// Dead letters, and when they were searched for.
    pub(super) letters: Option<(Timestamp, Vec<Finding>)>,
}

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
    let (runs, _) = ended_runs(store, job.uid, Some(RunState::Succeeded)).await?;
    Ok(runs.iter().filter_map(|run| run.ended_at).max())
}

/// The newest ended runs of a job that are of no backfill, as far back as one that succeeded or as it needs
/// to be judged, and whether the job has others that were not read.
async fn ended_runs(
    store: &dyn Store,
    job: JobUid,
    state: Option<RunState>,
) -> Result<(Vec<Run>, bool), Error> {
    let (mut ended, mut after) = (Vec::new(), None);
    for limit in PAGES {
        let filter = RunFilter {
            job: Some(job),
            state,
            ..RunFilter::default()
        };
        let runs = store.list_runs(filter, Page { after, limit }).await?;
        after = runs.last().map(|run| run.id);
        let read = runs.len();
        let counts = |run: &Run| run.ended_at.is_some() && run.backfill.is_none();
        ended.extend(runs.into_iter().filter(counts));
        if read < limit as usize {
            return Ok((ended, false));
        }
        let succeeded = ended.iter().any(|run| run.state == RunState::Succeeded);
        if succeeded || ended.len() >= RUNS {
            break;
        }
    }
    Ok((ended, true))
}

/// What failed, was missed or is late; what is known already is looked at again.
pub(super) async fn seen(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    turns: &mut Turns,
    now: Timestamp,
) -> Result<Seen, Error> {
    let span = Span {
        past: look_back(settings.every),
        ahead: SignedDuration::ZERO,
        part: SignedDuration::from_secs(1),
    };
    let mut findings = judge::overview(&store.get_overview(now, span).await?);
    let told = store.clock().await?;
    if told.standing() == Standing::Ahead {
        findings.push(judge::clock_step(told.wall.duration_since(told.now), now));
    }
    let mut seen = Seen {
        findings,
        whole: true,
    };
    let mut of_jobs = Rule::ALL.iter().filter(|rule| rule.is_of_jobs());
    if of_jobs.any(|rule| settings.policy(*rule).on) {
        jobs(store, settings, known, turns, now, &mut seen).await?;
    }
    let at_least = settings.policy(Rule::Surge).at_least;
    let surge = strain::surge(&seen.findings, at_least, now);
    seen.findings.extend(surge);
    Ok(seen)
}

/// By which alerts a job is told of as failing, and how.
type Told<'a> = Vec<(Key, &'a Member)>;

/// Jobs whose newest run had no success.
async fn jobs(
    store: &dyn Store,
    settings: &Settings,
    known: &[Alert],
    turns: &mut Turns,
    now: Timestamp,
    seen: &mut Seen,
) -> Result<(), Error> {
    let mut told = told(known);
    // Who is silenced by name is no part of an alert: what outlasts the silence is to be found after it.
    let silenced = settings.silences.iter();
    for subject in silenced.filter_map(|silence| silence.subject.as_ref()) {
        told.entry(subject.clone()).or_default();
    }
    let since = now.checked_sub(look_back(settings.every));
    let since = since.unwrap_or(Timestamp::MIN);
    let recent = store.list_unsuccessful_runs(since, MAX_RUNS).await?;
    let new = recent.iter().map(|run| (run.job_name.to_string(), run.job));
    let new: BTreeMap<String, JobUid> = new.filter(|(name, _)| !told.contains_key(name)).collect();
    let whole = recent.len() < MAX_RUNS as usize && new.len() <= MAX_NEW;
    if !whole && !turns.cut {
        tracing::warn!(
            runs = recent.len(),
            jobs = new.len(),
            "more jobs fail than one look judges; they have their turn"
        );
    }
    turns.cut = !whole;
    seen.whole = whole;
    let chosen = in_turn(&new, &mut turns.new, MAX_NEW);
    for name in &chosen {
        if let Some(uid) = new.get(name) {
            let found = judge_job(store, settings, *uid, name, &[]).await?;
            seen.findings.extend(found);
        }
    }
    let room = MAX_JUDGED - chosen.len();
    let chosen = in_turn(&told, &mut turns.told, room);
    for (subject, before) in &told {
        if !chosen.contains(subject) {
            let as_before = before.iter().map(|(key, m)| as_it_was(key, subject, m));
            seen.findings.extend(as_before);
        } else if let Some(name) = job_name(subject)
            && let Some(job) = store.get_job(name).await?
        {
            let found = judge_job(store, settings, job.uid, subject, before).await?;
            seen.findings.extend(found);
        }
    }
    Ok(())
}

/// At most `limit` of these, those behind the last `turn` first.
fn in_turn<T>(all: &BTreeMap<String, T>, turn: &mut String, limit: usize) -> BTreeSet<String> {
    let behind = all.range::<str, _>((Excluded(turn.as_str()), Unbounded));
    let names = behind.chain(all.iter()).map(|(name, _)| name);
    let chosen: Vec<String> = names.take(limit.min(all.len())).cloned().collect();
    if let Some(last) = chosen.last() {
        turn.clone_from(last);
    }
    chosen.into_iter().collect()
}

/// The jobs that are told of as failing.
fn told(known: &[Alert]) -> BTreeMap<String, Told<'_>> {
    let mut told: BTreeMap<String, Told<'_>> = BTreeMap::new();
    let open = known.iter().filter(|alert| {
        alert.rule.is_of_jobs() && matches!(alert.phase, Phase::Pending | Phase::Open)
    });
    for alert in open {
        for (subject, member) in alert.members.iter().filter(|(_, m)| m.active) {
            let by = told.entry(subject.clone()).or_default();
            by.push((alert.key(), member));
        }
    }
    told
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

/// What is wrong with a job that is told of by `before`.
async fn judge_job(
    store: &dyn Store,
    settings: &Settings,
    job: JobUid,
    subject: &str,
    before: &[(Key, &Member)],
) -> Result<Vec<Finding>, Error> {
    let (runs, more) = ended_runs(store, job, None).await?;
    let found = match judge::outcome(&runs) {
        Outcome::Fine => return Ok(Vec::new()),
        // Nothing of it is left to judge by.
        Outcome::Unknown if runs.is_empty() && !more => return Ok(Vec::new()),
        Outcome::Unknown => None,
        Outcome::Failing(n, run) if n >= in_a_row(settings, run) => {
            Some(judge::failed(run, failure(store, run).await?.as_ref()))
        }
        Outcome::Failing(..) => None,
        Outcome::NotStarted(run) => Some(judge::not_started(run)),
    };
    // A job is well when its newest run succeeded, and not before: one that fails otherwise by now, or was
    // told of by a run that is too old to be read, stays where it is told of.
    let rule = found.as_ref().map(|finding| finding.rule);
    let others = before.iter().filter(|(key, _)| Some(key.0) != rule);
    let others = others.map(|(key, member)| as_it_was(key, subject, member));
    let mut findings: Vec<Finding> = others.collect();
    if let Some(mut finding) = found {
        if let Some(((_, group), _)) = before.iter().find(|(key, _)| key.0 == finding.rule) {
            finding.group.clone_from(group);
        }
        findings.push(finding);
    }
    Ok(findings)
}

/// How many runs in a row must have ended like this one.
fn in_a_row(settings: &Settings, run: &Run) -> u32 {
    let rule = match run.state {
        RunState::Partial => Rule::Partial,
        _ => Rule::Failures,
    };
    settings.policy(rule).in_a_row
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

pub(super) fn job_name(subject: &str) -> Option<JobName> {
    let (namespace, name) = subject.split_once('/').unwrap_or(("default", subject));
    JobName::new(namespace, name).ok()
}

/// Pools where shards wait, though no worker is there or though some are.
pub(super) async fn pools(
    store: &dyn Store,
    settings: &Settings,
    pools: Vec<Name>,
    sessions: &[(Session, u32)],
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
    let live = sessions
        .iter()
        .filter(|(s, _)| !has_expired(s.expires_at, now));
    let manned: BTreeSet<&Name> = live.map(|(session, _)| &session.pool).collect();
    let backlog = settings.policy(Rule::Backlog);
    let mut findings = Vec::new();
    for pool in &pools {
        let is_manned = manned.contains(pool);
        if is_manned && !backlog.on {
            continue;
        }
        let wanted = if is_manned { HEADS } else { 1 };
        let window = Window {
            total: wanted,
            lane: wanted,
            job: 1,
        };
        let ready = store.list_ready(pool.clone(), Place::FIRST, window, 1);
        let ready = ready.await?;
        if is_manned {
            let runs: Vec<&Run> = ready.iter().map(|head| &*head.run).collect();
            findings.extend(strain::backlog(pool, &runs, backlog.after, now));
        } else if !ready.is_empty() {
            findings.push(judge::no_worker(pool, now));
        }
    }
    Ok(findings)
}
