//! From how a cluster stands to what strains it: waiting, slowness, rights that nobody has, changes of hands.
//!
//! # Invariants
//! - How long a job usually takes is said by its own history alone, and by none shorter than [`SAMPLE`]
//!   runs; one run that took for ever changes it little.
//!
//! # Not here
//! Reading what is judged (the engine).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::super::{Finding, Rule};
use crate::lease::has_expired;
use crate::model::{Duty, DutyKey, Node, Run, Session, Standing, Waiter};
use crate::name::Name;

/// So many runs that succeeded make a history by which a job is judged.
pub const SAMPLE: usize = 10;
/// Of how many runs at most, the newest.
pub const HISTORY: u32 = 30;

/// Beyond which length a run is slower than usual, where these are those of runs that succeeded, and what is
/// usual; `None` if they are too few.
///
/// The bound is the median and six times the median distance from it (as a standard deviation), at least half
/// as much again as the median, and at least `slack` beyond it.
#[must_use]
pub fn usual(
    lengths: &[SignedDuration],
    slack: SignedDuration,
) -> Option<(SignedDuration, SignedDuration)> {
    if lengths.len() < SAMPLE {
        return None;
    }
    let seconds = |d: &SignedDuration| d.as_secs_f64().max(0.0);
    let lengths: Vec<f64> = lengths.iter().map(seconds).collect();
    let middle = median(&lengths);
    let off: Vec<f64> = lengths.iter().map(|l| (l - middle).abs()).collect();
    /// From a median distance to a standard deviation, where lengths are spread evenly.
    const TO_DEVIATION: f64 = 1.4826;
    let wide = (6.0 * TO_DEVIATION * median(&off)).max(middle / 2.0);
    let wide = wide.max(seconds(&slack));
    let length = |s: f64| SignedDuration::try_from_secs_f64(s).ok();
    Some((length(middle)?, length(middle + wide)?))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match (sorted.get(half.wrapping_sub(1)), sorted.get(half)) {
        (Some(low), Some(high)) if sorted.len().is_multiple_of(2) => f64::midpoint(*low, *high),
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

/// How long a run that ended took, from its first grant on.
#[must_use]
pub fn length(run: &Run) -> Option<SignedDuration> {
    Some(run.ended_at?.duration_since(run.started_at?))
}

/// A run that runs for longer than usual, and by `slack` at least. `history`: how long runs of its job took
/// that succeeded.
#[must_use]
pub fn slower(
    run: &Run,
    history: &[SignedDuration],
    slack: SignedDuration,
    now: Timestamp,
) -> Option<Finding> {
    let (middle, bound) = usual(history, slack)?;
    let began = run.started_at?;
    if now.duration_since(began) <= bound {
        return None;
    }
    Some(Finding {
        rule: Rule::Slower,
        group: run.job_name.to_string(),
        subject: run.job_name.to_string(),
        cause: format!(
            "run {} runs since {}, usually {} (of {} runs)",
            super::occasion(run),
            whole(began),
            rounded(middle),
            history.len()
        ),
        since: began.checked_add(bound).unwrap_or(now),
    })
}

/// To the second.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn rounded(length: SignedDuration) -> String {
    format!("{:#}", SignedDuration::from_secs(length.as_secs()))
}

/// So many causes at once among `findings`, where each is told of by itself, that they may have one in common.
#[must_use]
pub fn surge(findings: &[Finding], at_least: u32, now: Timestamp) -> Option<Finding> {
    let failed = |f: &&Finding| matches!(f.rule, Rule::Failures | Rule::Partial);
    let causes: BTreeSet<&str> = findings
        .iter()
        .filter(failed)
        .map(|f| f.group.as_str())
        .collect();
    if causes.len() < at_least as usize {
        return None;
    }
    let jobs: BTreeSet<&str> = findings
        .iter()
        .filter(failed)
        .map(|f| f.subject.as_str())
        .collect();
    Some(Finding {
        rule: Rule::Surge,
        group: String::new(),
        subject: String::new(),
        cause: format!("{} jobs by {} causes", jobs.len(), causes.len()),
        since: now,
    })
}

/// Jobs with shards that failed for good so long ago and that nobody has retried or discarded.
#[must_use]
pub fn dead_letters(runs: &[Run], after: SignedDuration, now: Timestamp) -> Vec<Finding> {
    let mut oldest: BTreeMap<String, (Timestamp, usize)> = BTreeMap::new();
    for run in runs {
        let Some(ended) = run.ended_at.filter(|at| now.duration_since(*at) > after) else {
            continue;
        };
        let (since, n) = oldest.entry(run.job_name.to_string()).or_insert((ended, 0));
        *since = (*since).min(ended);
        *n += 1;
    }
    let found = |(job, (since, n)): (String, (Timestamp, usize))| Finding {
        rule: Rule::DeadLetters,
        group: String::new(),
        subject: job,
        cause: format!("{n} runs"),
        since,
    };
    oldest.into_iter().map(found).collect()
}

/// A pool with workers where one of these runs could have begun so long ago, and has not.
#[must_use]
pub fn backlog(
    pool: &Name,
    waiting: &[&Run],
    after: SignedDuration,
    now: Timestamp,
) -> Option<Finding> {
    // What waits for a capacity is told of by that.
    let own = waiting
        .iter()
        .filter(|run| run.started_at.is_none() && run.terms.uses.is_empty());
    let since = |run: &Run| {
        run.ready_at
            .map_or(run.created_at, |at| at.max(run.created_at))
    };
    let (since, run) = own
        .map(|run| (since(run), run))
        .min_by_key(|(since, run)| (*since, run.id))?;
    if now.duration_since(since) <= after {
        return None;
    }
    Some(Finding {
        rule: Rule::Backlog,
        group: pool.to_string(),
        subject: pool.to_string(),
        cause: format!("{} waits since {}", run.job_name, whole(since)),
        since,
    })
}

/// Sessions that are over for so long and still have shards: nobody takes those back.
#[must_use]
pub fn no_lease(
    sessions: &[(Session, u32)],
    after: SignedDuration,
    now: Timestamp,
) -> Vec<Finding> {
    let mut pools: BTreeMap<&Name, (u32, Timestamp)> = BTreeMap::new();
    for (session, held) in sessions.iter().filter(|(_, held)| *held > 0) {
        let until = session.expires_at.checked_add(after);
        if until.is_ok_and(|until| has_expired(until, now)) {
            let (n, since) = pools
                .entry(&session.pool)
                .or_insert((0, session.expires_at));
            *n += held;
            *since = (*since).min(session.expires_at);
        }
    }
    let found = |(pool, (n, since)): (&Name, (u32, Timestamp))| Finding {
        rule: Rule::NoLease,
        group: pool.to_string(),
        subject: pool.to_string(),
        cause: format!("{n} shards"),
        since,
    };
    pools.into_iter().map(found).collect()
}

/// Duties in no live node's hands.
#[must_use]
pub fn no_owner(nodes: &[Node], duties: &[Duty], now: Timestamp) -> Vec<Finding> {
    let live = nodes.iter().filter(|node| now < node.expires_at);
    let live: BTreeSet<_> = live.map(|node| node.id).collect();
    let idle = duties
        .iter()
        .filter(|duty| duty.node.is_none_or(|node| !live.contains(&node)));
    let found = |duty: &Duty| Finding {
        rule: Rule::NoOwner,
        group: String::new(),
        subject: duty.key.text(),
        cause: String::new(),
        since: now,
    };
    idle.map(found).collect()
}

/// The terms of all duties as they were seen lately.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    seen: Vec<(Timestamp, BTreeMap<DutyKey, u64>)>,
}

/// Looks of which the terms of duties are kept, spread over the time for which changes of hands count.
const MAX_LOOKS: usize = 60;

impl Terms {
    /// Takes these over as how it is at `now`, and tells which duties went from hand to hand so often
    /// `within` that.
    pub fn look(
        &mut self,
        duties: &[Duty],
        at_least: u32,
        within: SignedDuration,
        now: Timestamp,
    ) -> Vec<Finding> {
        let old = |at: Timestamp| now.duration_since(at) > within;
        self.seen.retain(|(at, _)| !old(*at));
        let terms: BTreeMap<DutyKey, u64> =
            duties.iter().map(|d| (d.key.clone(), d.term.0)).collect();
        let mut findings = Vec::new();
        for (key, term) in &terms {
            let mut before = self
                .seen
                .iter()
                .filter_map(|(at, terms)| Some((*at, terms.get(key)?)));
            let Some((since, first)) = before.next() else {
                continue;
            };
            let changes = term.saturating_sub(*first);
            if changes >= u64::from(at_least) {
                findings.push(Finding {
                    rule: Rule::OwnerFlapping,
                    group: String::new(),
                    subject: key.text(),
                    cause: format!("{changes} changes since {}", whole(since)),
                    since,
                });
            }
        }
        let part = within / i32::try_from(MAX_LOOKS).unwrap_or(i32::MAX);
        let last = self.seen.last().map(|(at, _)| *at);
        if last.is_none_or(|last| now.duration_since(last) >= part) {
            self.seen.push((now, terms));
        }
        findings
    }
}

/// A capacity of which all is held, and of which somebody has waited for so long.
#[must_use]
pub fn exhausted(
    standing: &Standing,
    waiters: &[Waiter],
    after: SignedDuration,
    now: Timestamp,
) -> Option<Finding> {
    let first = waiters
        .iter()
        .min_by_key(|waiter| (waiter.since, waiter.run))?;
    if now.duration_since(first.since) <= after {
        return None;
    }
    let name = &standing.capacity.name;
    let units = standing.capacity.limits.units;
    let of = units.map_or(String::new(), |units| format!(" of {units}"));
    Some(Finding {
        rule: Rule::CapacityExhausted,
        group: name.to_string(),
        subject: name.to_string(),
        cause: format!(
            "{}{of} held, {} waits since {}",
            standing.used,
            first.job_name,
            whole(first.since)
        ),
        since: first.since,
    })
}

/// A transaction of somebody else's that holds the store's database up.
#[must_use]
pub fn old_transaction(pid: i32, age: SignedDuration, what: &str, now: Timestamp) -> Finding {
    Finding {
        rule: Rule::OldTransaction,
        group: String::new(),
        subject: format!("pid {pid}"),
        cause: super::cut(what, super::super::MAX_CAUSE_BYTES).to_owned(),
        since: now.checked_sub(age).unwrap_or(now),
    }
}

#[cfg(test)]
mod tests;
