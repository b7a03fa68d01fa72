//! From what is seen to what is wrong: each rule's condition.
//!
//! # Invariants
//! - A job is judged by its newest run that ended by itself, runs of backfills aside: those are told of by
//!   their backfill. What still runs changes nothing.
//! - Failures of one cause have one group, whatever numbers their messages hold.
//!
//! # Not here
//! Reading what is judged (the engine).

pub mod strain;

use jiff::{SignedDuration, Timestamp};

use super::{Finding, MAX_CAUSE_BYTES, Rule};
use crate::ids::Occasion;
use crate::lifecycle::RunState;
use crate::lifecycle::run::STARTING_DEADLINE;
use crate::model::{Failure, Run};
use crate::name::{JobName, Name};
use crate::port::Overview;

/// How far back is looked at least for what failed or was missed.
pub const LOOK_BACK: SignedDuration = SignedDuration::from_mins(15);
/// The longest group, in bytes.
const GROUP_BYTES: usize = 120;
/// So much of a cause is looked at for its group.
const LINE_BYTES: usize = 2_000;
/// From so many hexadecimal digits on, they are an id and no word.
const SHORTEST_ID: usize = 8;

/// How far back is looked, where a look is taken `every` so often. Who was not looked at for longer (no
/// server had the alerts) is not told of it any more, unless it is told already.
#[must_use]
pub fn look_back(every: SignedDuration) -> SignedDuration {
    // One look or two may fail.
    every.saturating_mul(3).max(LOOK_BACK)
}

/// How a job stands by its runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// Its newest run that ended succeeded.
    Fine,
    /// So many of its newest runs in a row failed; the newest of them.
    Failing(u32, &'a Run),
    /// Its newest run was cancelled since it had not started in time.
    NotStarted(&'a Run),
    /// None of these runs says.
    Unknown,
}

/// How a job stands by its newest `runs`, newest first.
#[must_use]
pub fn outcome(runs: &[Run]) -> Outcome<'_> {
    let mut failed: Option<(u32, &Run)> = None;
    for run in runs.iter().filter(|run| run.backfill.is_none()) {
        match (run.state, failed) {
            (RunState::Scheduled | RunState::Running, _) => {}
            (RunState::Failed | RunState::Partial, None) => failed = Some((1, run)),
            (RunState::Failed | RunState::Partial, Some((n, newest))) => {
                failed = Some((n + 1, newest));
            }
            (RunState::Cancelled, None) if run.stop_detail == STARTING_DEADLINE => {
                return Outcome::NotStarted(run);
            }
            // What was given up on purpose says nothing of the job.
            (RunState::Cancelled, _) => {}
            (RunState::Succeeded, Some((n, newest))) => return Outcome::Failing(n, newest),
            (RunState::Succeeded, None) => return Outcome::Fine,
        }
    }
    failed.map_or(Outcome::Unknown, |(n, newest)| Outcome::Failing(n, newest))
}

/// A run that failed, with the failure of one of its shards.
#[must_use]
pub fn failed(run: &Run, failure: Option<&Failure>) -> Finding {
    let mut parts = Vec::new();
    parts.extend((!run.reason.is_empty()).then_some(run.reason.as_str()));
    if let Some(failure) = failure {
        parts.extend([failure.code.as_str(), failure.message.as_str()]);
    }
    parts.retain(|part| !part.is_empty());
    let cause = parts.join(": ");
    let cause = if cause.is_empty() {
        run.state.word().to_owned()
    } else {
        cause
    };
    Finding {
        rule: match run.state {
            RunState::Partial => Rule::Partial,
            _ => Rule::Failures,
        },
        group: group(&cause),
        subject: run.job_name.to_string(),
        cause: format!("{} (run {})", cut(&cause, MAX_CAUSE_BYTES), occasion(run)),
        since: run.ended_at.unwrap_or(run.created_at),
    }
}

/// Which run of its job this is.
fn occasion(run: &Run) -> String {
    match &run.occasion {
        Occasion::Planned { at, .. } => at.to_string(),
        Occasion::Manual { key } => key.clone(),
    }
}

/// A run that did not start in time. Those of one pool are told of together.
#[must_use]
pub fn not_started(run: &Run) -> Finding {
    Finding {
        rule: Rule::NotStarted,
        group: run.terms.pool.to_string(),
        subject: run.job_name.to_string(),
        cause: format!("pool {} took none of run {}", run.terms.pool, occasion(run)),
        since: run.ended_at.unwrap_or(run.created_at),
    }
}

/// What `overview`, which looks back as far as [`look_back`] says, has seen.
#[must_use]
pub fn overview(overview: &Overview) -> Vec<Finding> {
    let now = overview.now;
    let missed = overview.skips.iter().filter(|skips| {
        matches!(skips.reason.as_str(), "catch_up" | "deadline") && skips.count > skips.filled
    });
    let mut findings: Vec<Finding> = missed
        .map(|skips| Finding {
            rule: Rule::Missed,
            group: skips.reason.clone(),
            subject: skips.job.to_string(),
            cause: format!("{} by {}", skips.count - skips.filled, skips.reason),
            since: now,
        })
        .collect();
    if overview.late_jobs > 0 {
        findings.push(Finding {
            rule: Rule::Late,
            group: String::new(),
            subject: String::new(),
            cause: format!("{} jobs", overview.late_jobs),
            since: now,
        });
    }
    findings
}

/// A pool where shards wait and no worker is.
#[must_use]
pub fn no_worker(pool: &Name, now: Timestamp) -> Finding {
    Finding {
        rule: Rule::NoWorker,
        group: pool.to_string(),
        subject: pool.to_string(),
        cause: String::new(),
        since: now,
    }
}

/// A clock that stepped ahead by so much.
#[must_use]
pub fn clock_step(step: SignedDuration, now: Timestamp) -> Finding {
    Finding {
        rule: Rule::ClockStep,
        group: String::new(),
        subject: String::new(),
        cause: format!("by {} seconds", step.as_secs()),
        since: now,
    }
}

/// Whether a job that succeeded last at `since`, or has been watched since then, is told of.
#[must_use]
pub fn no_success(
    job: &JobName,
    since: Timestamp,
    within: SignedDuration,
    now: Timestamp,
) -> Option<Finding> {
    if now.duration_since(since) <= within {
        return None;
    }
    Some(Finding {
        rule: Rule::NoSuccess,
        group: job.to_string(),
        subject: job.to_string(),
        cause: format!("none within {within:#}"),
        since,
    })
}

/// What causes have in common that differ by numbers and ids alone.
#[must_use]
pub fn group(cause: &str) -> String {
    let line: Vec<char> = cut(cause, LINE_BYTES).chars().collect();
    let mut group = String::new();
    let mut rest = line.as_slice();
    while let Some((c, behind)) = rest.split_first() {
        // Ids, addresses and counts differ from one failure to the next.
        let (c, behind) = match id(rest) {
            0 if c.is_ascii_digit() => ('#', behind),
            0 => (*c, behind),
            length => ('#', &rest[length..]),
        };
        rest = behind;
        if c.is_control() || (c == '#' && group.ends_with('#')) {
            continue;
        }
        group.push(c);
    }
    cut(&group, GROUP_BYTES).to_owned()
}

/// How long the UUID, or else the run of hexadecimal digits, is at the beginning of `text`; 0 if there is
/// none, or one so short that it may be a word.
fn id(text: &[char]) -> usize {
    let digits = |text: &[char]| text.iter().take_while(|c| c.is_ascii_hexdigit()).count();
    let mut length = digits(text);
    if length < SHORTEST_ID {
        return 0;
    }
    if length == 8 {
        let mut end = length;
        let parts = [4, 4, 4, 12].into_iter().all(|part| {
            let is_one = text.get(end) == Some(&'-') && digits(&text[end + 1..]) == part;
            end += part + 1;
            is_one
        });
        length = if parts { end } else { length };
    }
    length
}

/// As much of `text` as fits, one line of it.
fn cut(text: &str, bytes: usize) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let mut end = line.len().min(bytes);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}
