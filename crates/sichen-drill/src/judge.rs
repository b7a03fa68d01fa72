//! Did the drill pass? Judged on what was written down, after everything has ended.
//!
//! # Invariants
//! - Pure: the same facts give the same findings, so a folder can be judged again.
//! - A drill in which nothing happened does not pass.
//!
//! # Not here
//! When a drill is stopped while it runs ([`crate::stop`]).

pub mod measures;
pub mod windows;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::business::{Compared, shown};
use crate::drill::{Act, Drill, RECOVERY_MS};
use crate::evidence::{Attempt, Occasion};
use crate::logs;
use crate::members::POOL;
pub use measures::{Measures, Spread, recovery};
use windows::{Matched, Window, matched};

/// How late a task may begin where no fault is near: the machine may be busy.
pub const LATE_US: i64 = 5_000_000;
/// How early, by clocks of one machine.
pub const EARLY_US: i64 = 50_000;
/// Fewer tasks than these say nothing.
pub const FEWEST_TASKS: usize = 8;
/// Names that a finding lists.
const MAX_NAMED: usize = 5;

/// A fault that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// What.
    pub act: Act,
    /// To whom.
    pub victim: String,
    /// When.
    pub at_us: i64,
    /// When it was undone.
    pub healed_us: i64,
    /// Whether it hit what the drill's claim is about ([`is_hit`]).
    pub hit: bool,
    /// What was at work there at that moment.
    pub in_flight: Vec<String>,
    /// Of one of several servers: what was its to do at that moment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// Bytes that a proxy lost meanwhile.
    pub lost_bytes: u64,
    /// Whether there is something that it could hit at all: not so of a fault of the load.
    pub can_miss: bool,
}

/// Whether a fault hits what a drill's claim is about: work in flight, and of one of several servers the
/// pool of those who do it.
#[must_use]
pub fn is_hit(drill: &Drill, in_flight: &[String], held: &[String]) -> bool {
    let has_pool = || held.iter().any(|duty| duty == POOL);
    !in_flight.is_empty() && (drill.shape.peers == 0 || has_pool())
}

/// The checker's word on the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// `ok`, `violated`, `unknown`, or why there is none.
    pub outcome: String,
    /// Broken promises.
    pub violations: u64,
    /// The first of them.
    pub first: Vec<String>,
}

/// All that was seen.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The drill.
    pub drill: &'static Drill,
    /// Whether a fault was to be done.
    pub has_faults: bool,
    /// Occasions that must have been taken.
    pub must: Vec<Occasion>,
    /// Occasions that may have been: beside the begin and the end of the load.
    pub may: Vec<Occasion>,
    /// Attempts by their own evidence.
    pub attempts: Vec<Attempt>,
    /// Faults.
    pub faults: Vec<Done>,
    /// Alarms in the logs.
    pub logs: logs::Found,
    /// The business data.
    pub business: Compared,
    /// The history.
    pub history: History,
    /// Runs that were open when they should have ended.
    pub open: Vec<String>,
    /// Processes that ended although nobody ended them.
    pub deaths: Vec<String>,
    /// Files of the folder in which a secret was found after masking.
    pub leaks: Vec<String>,
    /// Files in which a secret was masked: the tasks plant one.
    pub masked: usize,
    /// Waits for locks and deadlocks that were seen; `None` without a database to ask.
    pub entangled: Option<u64>,
}

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What must hold.
    pub pass_when: &'static str,
    /// Whether it does.
    pub ok: bool,
    /// What was seen.
    pub seen: String,
}

/// The window of each planned instant: wider beside a fault.
#[must_use]
pub fn widths(planned: &[i64], faults: &[Done]) -> Vec<Window> {
    let recovery = us(RECOVERY_MS);
    let windows = planned.iter().map(|&planned_us| {
        let mut to_us = planned_us + LATE_US;
        for fault in faults {
            let over = fault.healed_us + recovery;
            if planned_us + LATE_US >= fault.at_us && planned_us <= over {
                to_us = to_us.max(over + LATE_US);
            }
        }
        Window {
            planned_us,
            from_us: planned_us - EARLY_US,
            to_us,
        }
    });
    windows.collect()
}

fn us(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX / 1_000) * 1_000
}

/// What the matching of all jobs and shards gives.
#[derive(Debug, Default)]
struct Matching {
    /// Lateness, and whether a fault was near.
    late: Vec<(i64, bool)>,
    missed: Vec<String>,
    extra: Vec<String>,
}

fn lanes<'a>(occasions: impl Iterator<Item = &'a Occasion>) -> BTreeMap<(String, u32), Vec<i64>> {
    let mut lanes: BTreeMap<(String, u32), Vec<i64>> = BTreeMap::new();
    for o in occasions {
        lanes
            .entry((o.job.clone(), o.shard))
            .or_default()
            .push(o.planned_us);
    }
    lanes
}

/// The first attempt of each occasion that said it had done all.
fn firsts(attempts: &[Attempt]) -> BTreeMap<&Occasion, &Attempt> {
    let mut firsts: BTreeMap<&Occasion, &Attempt> = BTreeMap::new();
    for attempt in attempts.iter().filter(|a| a.ended_us.is_some()) {
        let first = firsts.entry(&attempt.occasion).or_insert(attempt);
        if attempt.ended_us < first.ended_us {
            *first = attempt;
        }
    }
    firsts
}

fn matching(facts: &Facts) -> Matching {
    let firsts = firsts(&facts.attempts);
    let mut begins: BTreeMap<(String, u32), Vec<i64>> = BTreeMap::new();
    for (occasion, attempt) in &firsts {
        let lane = (occasion.job.clone(), occasion.shard);
        begins.entry(lane).or_default().push(attempt.began_us);
    }
    // An occasion beside the load's ends counts if something was done for it.
    let may = facts.may.iter().filter(|o| firsts.contains_key(o));
    let mut found = Matching::default();
    for (lane, planned) in lanes(facts.must.iter().chain(may)) {
        let windows = widths(&planned, &facts.faults);
        let Matched {
            pairs,
            missed,
            extra,
        } = matched(&windows, &begins.remove(&lane).unwrap_or_default());
        let named = |us: i64| format!("{} shard {} {}", lane.0, lane.1, shown(us));
        for (planned, begin) in pairs {
            let near = windows
                .iter()
                .any(|w| w.planned_us == planned && w.to_us - planned > LATE_US);
            found.late.push((begin - planned, near));
        }
        found.missed.extend(missed.into_iter().map(named));
        found.extra.extend(extra.into_iter().map(named));
    }
    for (lane, left) in begins {
        let named = left
            .into_iter()
            .map(|us| format!("{} shard {} {}", lane.0, lane.1, shown(us)));
        found.extra.extend(named);
    }
    found
}

/// What was measured, and what holds.
#[must_use]
pub fn judge(facts: &Facts) -> (Measures, Vec<Finding>) {
    let matching = matching(facts);
    let measures = measures::measures(facts, &matching.late);
    let mut findings = vec![
        one_each(facts, &matching),
        told(facts),
        business(facts),
        history(facts),
        settled(facts),
        quiet(facts),
        alive(facts),
    ];
    if facts.has_faults {
        findings.push(hit(facts));
        findings.push(recovered(facts, &measures));
    }
    if let (Some(limit), true) = (facts.drill.takeover_ms, facts.has_faults) {
        findings.push(taken_over(limit, facts, &measures));
    }
    if let (Some(limit), true) = (facts.drill.late_ms, facts.has_faults) {
        findings.push(not_late(limit, &measures));
    }
    if !facts.drill.may_repeat || !facts.has_faults {
        findings.push(no_repeats(facts, &measures));
    }
    findings.push(kept_secret(facts));
    (measures, findings)
}

fn finding(pass_when: &'static str, bad: &[String], good: String) -> Finding {
    let seen = match bad {
        [] => good,
        bad => {
            let named: Vec<&str> = bad.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = match bad.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                more => format!("; {more} more"),
            };
            format!("{}{more}", named.join("; "))
        }
    };
    Finding {
        pass_when,
        ok: bad.is_empty(),
        seen,
    }
}

fn one_each(facts: &Facts, matching: &Matching) -> Finding {
    let missed = matching
        .missed
        .iter()
        .map(|m| format!("no task in the window of {m}"));
    let extra = matching
        .extra
        .iter()
        .map(|m| format!("a task of its own with no instant: {m}"));
    let few = (facts.attempts.len() < FEWEST_TASKS).then(|| {
        format!(
            "only {} tasks: too few to mean anything",
            facts.attempts.len()
        )
    });
    let bad: Vec<String> = missed.chain(extra).chain(few).collect();
    finding(
        "each planned instant of each shard has a task of its own that began in its window",
        &bad,
        format!(
            "{} of {} instants, each with its own task",
            matching.late.len(),
            facts.must.len()
        ),
    )
}

fn told(facts: &Facts) -> Finding {
    let firsts = firsts(&facts.attempts);
    let known: BTreeSet<&Occasion> = facts.must.iter().chain(&facts.may).collect();
    let named = |o: &Occasion| format!("{} shard {} {}", o.job, o.shard, shown(o.planned_us));
    let left_out = facts.must.iter().filter(|o| !firsts.contains_key(o));
    let invented = facts
        .attempts
        .iter()
        .filter(|a| !known.contains(&a.occasion));
    let bad: Vec<String> = left_out
        .map(|o| format!("never done: {}", named(o)))
        .chain(invented.map(|a| format!("never planned: {}", named(&a.occasion))))
        .collect();
    finding(
        "what the tasks were told to be for are exactly the planned instants",
        &bad,
        format!("{} occasions", firsts.len()),
    )
}

fn business(facts: &Facts) -> Finding {
    let b = &facts.business;
    let missing = b.missing.iter().map(|m| format!("missing: {m}"));
    let mut bad: Vec<String> = missing.collect();
    bad.extend(
        b.surplus
            .iter()
            .map(|m| format!("too many or not planned: {m}")),
    );
    if bad.is_empty() && b.found != b.expected {
        bad.push(format!(
            "balances: {} instead of {}",
            b.found.balance, b.expected.balance
        ));
    }
    let sum = b.found.checksum.get(..12).unwrap_or_default();
    finding(
        "the business data is what the planned instants alone give, each step once",
        &bad,
        format!(
            "{} postings, balance {}, checksum {sum}",
            b.found.postings, b.found.balance
        ),
    )
}

fn history(facts: &Facts) -> Finding {
    let history = &facts.history;
    let bad = match history.outcome.as_str() {
        "ok" => Vec::new(),
        other => {
            let mut bad = vec![format!("{other}, {} broken promises", history.violations)];
            bad.extend(history.first.iter().cloned());
            bad
        }
    };
    finding(
        "the checker accepts the recorded history",
        &bad,
        "accepted".to_owned(),
    )
}

fn settled(facts: &Facts) -> Finding {
    finding(
        "after the load every run has ended",
        &facts.open,
        "none is open".to_owned(),
    )
}

fn quiet(facts: &Facts) -> Finding {
    let mut bad: Vec<String> = Vec::new();
    bad.extend(
        facts
            .logs
            .unexpected
            .iter()
            .map(|l| format!("{}: {}", l.of, l.text)),
    );
    finding(
        "no log line of level WARN or ERROR but those that the drill expects",
        &bad,
        format!("{} expected lines, no other", facts.logs.expected),
    )
}

fn alive(facts: &Facts) -> Finding {
    finding(
        "no process ended but by the drill's own hand",
        &facts.deaths,
        "all lived".to_owned(),
    )
}

fn hit(facts: &Facts) -> Finding {
    let mut bad = Vec::new();
    let tasks = facts.attempts.len();
    if facts.faults.is_empty() {
        bad.push("no fault was done".to_owned());
    }
    let hits = facts.faults.iter().filter(|f| f.hit).count();
    if facts.drill.fault == Act::Entangle && facts.entangled.unwrap_or(0) == 0 {
        bad.push("no wait for a lock and no deadlock was seen".to_owned());
    }
    let can_miss = facts.faults.iter().any(|f| f.can_miss);
    if can_miss && hits == 0 && !facts.faults.is_empty() {
        bad.push(match facts.drill.shape.peers {
            0 => "no fault hit anything that was at work".to_owned(),
            _ => format!("no fault hit a server that had {POOL} and work in flight"),
        });
    }
    finding(
        "the condition was changed while work was in flight",
        &bad,
        format!(
            "{} faults, {hits} of them hit tasks in flight; {tasks} tasks",
            facts.faults.len()
        ),
    )
}

fn recovered(facts: &Facts, measures: &Measures) -> Finding {
    let limit = RECOVERY_MS;
    let late = measures.recovery.max_ms > i64::try_from(limit).unwrap_or(i64::MAX);
    let silent = measures.recovery.count < facts.faults.len();
    let mut bad = Vec::new();
    if late {
        bad.push(format!(
            "{} ms until what it hit was at work again",
            measures.recovery.max_ms
        ));
    }
    if silent {
        let n = facts.faults.len() - measures.recovery.count;
        bad.push(format!(
            "after {n} heals what was hit did not begin anything again"
        ));
    }
    finding(
        "what was hit is at work again within 10 s of each heal, without a restart by hand",
        &bad,
        format!("at most {} ms", measures.recovery.max_ms),
    )
}

fn taken_over(limit: u64, facts: &Facts, measures: &Measures) -> Finding {
    let max = measures.takeover.max_ms;
    let mut bad = Vec::new();
    if max > i64::try_from(limit).unwrap_or(i64::MAX) {
        bad.push(format!("{max} ms, the limit is {limit} ms"));
    }
    // What is hit for less than the bound may go on by itself.
    let bound = us(facts.drill.bound_ms);
    let is_long = |fault: &&Done| fault.hit && fault.healed_us - fault.at_us > bound;
    let judged = match facts.faults.iter().any(|fault| is_long(&fault)) {
        true => measures.takeover.count,
        false => measures.takeover.count + measures.went_on,
    };
    if judged == 0 {
        bad.push("nothing to judge: nothing that it hit began again".to_owned());
    }
    finding(
        "what the fault hit begins again elsewhere within the drill's limit",
        &bad,
        format!(
            "{} takeovers, at most {max} ms of {limit} ms; {} went on by themselves",
            measures.takeover.count, measures.went_on
        ),
    )
}

fn not_late(limit: u64, measures: &Measures) -> Finding {
    let max = measures.lateness_near_faults.max_ms;
    let mut bad = Vec::new();
    if max > i64::try_from(limit).unwrap_or(i64::MAX) {
        bad.push(format!("{max} ms, the limit is {limit} ms"));
    }
    if measures.moved.count == 0 {
        bad.push("nothing to judge: nothing was due while its server was gone".to_owned());
    }
    finding(
        "no task begins later in or after a fault than the drill's limit",
        &bad,
        format!(
            "at most {max} ms of {limit} ms; {} were due while their server was gone, at most {} ms late",
            measures.moved.count, measures.moved.max_ms
        ),
    )
}

fn no_repeats(facts: &Facts, measures: &Measures) -> Finding {
    let mut bad = Vec::new();
    if measures.repeats > 0 {
        bad.push(format!("{} occasions were done again", measures.repeats));
    }
    let cut = facts.attempts.iter().filter(|a| a.ended_us.is_none());
    bad.extend(cut.map(|a| {
        let o = &a.occasion;
        format!(
            "cut short: {} shard {} {}",
            o.job,
            o.shard,
            shown(o.planned_us)
        )
    }));
    finding(
        "no attempt is cut short or repeated",
        &bad,
        "each was done once".to_owned(),
    )
}

fn kept_secret(facts: &Facts) -> Finding {
    let mut bad: Vec<String> = facts
        .leaks
        .iter()
        .map(|file| format!("in {file}"))
        .collect();
    if facts.masked == 0 {
        bad.push("the secret that the tasks planted was not found".to_owned());
    }
    finding(
        "no secret is in the evidence, the one that the tasks planted neither",
        &bad,
        format!("masked in {} files", facts.masked),
    )
}

/// An attempt, as the fault log names it.
#[must_use]
pub fn name(attempt: &Attempt) -> String {
    let o = &attempt.occasion;
    format!(
        "{} {} shard {} token {}",
        o.job,
        shown(o.planned_us),
        o.shard,
        attempt.token
    )
}

/// The first thing that was not as it must be.
#[must_use]
pub fn first_deviation(findings: &[Finding]) -> Option<String> {
    let first = findings.iter().find(|f| !f.ok)?;
    Some(format!("not so: {}: {}", first.pass_when, first.seen))
}

#[cfg(test)]
mod tests;
