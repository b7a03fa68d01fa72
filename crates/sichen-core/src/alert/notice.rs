//! What a notice says, and how often it is tried.
//!
//! # Invariants
//! - A notice's id is in its body and never changes: a receiver that gets it twice can see that it did.
//!
//! # Not here
//! How it is sent, and the forms that chat services want (the server).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Alert, Rule, What};

/// How often a notice is tried before it is given up: for about a day.
pub const MAX_TRIES: u32 = 100;
/// Notices that wait for one receiver; what comes beyond is not written down for it.
pub const MAX_WAITING: usize = 200;
/// Notices of one receiver that are sent in one pass.
pub const MAX_AT_ONCE: u32 = 3;
/// The longest name of a receiver, in bytes.
pub const MAX_RECEIVER_BYTES: usize = 100;
/// Between two tries of a notice, at most.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// A notice that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which; the same however often it is sent.
    pub id: Uuid,
    /// Who gets it.
    pub receiver: String,
    /// What it says, in JSON.
    pub body: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is tried next.
    pub due_at: Timestamp,
    /// How often it was tried.
    pub tries: u32,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The receiver has it, or it is given up: it is forgotten.
    Ended,
    /// It is tried again then.
    Again(Timestamp),
}

/// When a notice is tried again that failed `tries` times; `None`: it is given up.
#[must_use]
pub fn again(tries: u32, now: Timestamp) -> Option<Timestamp> {
    if tries >= MAX_TRIES {
        return None;
    }
    let wait = super::doubled(SignedDuration::from_secs(1), tries.saturating_sub(1));
    now.checked_add(wait.min(LONGEST)).ok()
}

/// What a notice says of `alert`.
#[must_use]
pub fn body(id: Uuid, source: &str, what: What, alert: &Alert, now: Timestamp) -> Value {
    let over = what == What::Recovered;
    let told = alert.members.iter().filter(|(_, m)| over || m.active);
    let subjects: Vec<Value> = told
        .map(|(subject, m)| {
            json!({
                "subject": subject, "since": shown(m.since), "cause": m.cause,
            })
        })
        .collect();
    json!({
        "id": id.to_string(),
        "source": source,
        "event": what.word(),
        "alert": alert.name(),
        "rule": alert.rule.word(),
        "since": shown(alert.since),
        "at": shown(now),
        "count": subjects.len(),
        "more": alert.more,
        "subjects": subjects,
        "summary": summary(what, alert),
        "what_to_do": what_to_do(alert.rule),
    })
}

/// To the second: who reads it is a person.
fn shown(at: Timestamp) -> String {
    let second = Timestamp::from_second(at.as_second()).unwrap_or(at);
    second.to_string()
}

/// One line for people.
#[must_use]
pub fn summary(what: What, alert: &Alert) -> String {
    /// Subjects that a line names.
    const NAMED: usize = 3;
    let over = what == What::Recovered;
    let told = || alert.members.iter().filter(|(_, m)| over || m.active);
    let count = told().count();
    let mut names: Vec<&str> = told().map(|(subject, _)| subject.as_str()).collect();
    names.retain(|name| !name.is_empty());
    let mut named = names
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > NAMED || alert.more {
        let beyond = if alert.more { "more" } else { "others" };
        named = format!(
            "{named} and {} {beyond}",
            count.saturating_sub(NAMED).max(1)
        );
    }
    let about = match alert.rule {
        Rule::Failures => "runs failed",
        Rule::NotStarted => "runs did not start in time",
        Rule::Missed => "planned instants were missed and will not run",
        Rule::Late => "planned instants pass undecided",
        Rule::NoSuccess => "no success for too long",
        Rule::NoWorker => "shards wait and the pool has no worker",
        Rule::ClockStep => "the store's clock stepped ahead and firing waits",
    };
    let colon = if named.is_empty() { "" } else { ": " };
    let head = match what {
        What::Raised | What::Widened => "",
        What::Repeated => "still: ",
        What::Recovered => "over: ",
    };
    let cause = told()
        .map(|(_, m)| m.cause.as_str())
        .find(|cause| !cause.is_empty() && !over);
    let cause = cause.map_or(String::new(), |cause| format!(" ({cause})"));
    format!("{head}{about}{colon}{named}{cause}")
}

fn what_to_do(rule: Rule) -> &'static str {
    match rule {
        Rule::Failures => "sichen dead-letters",
        Rule::NotStarted => "sichen get runs JOB; sichen get workers",
        Rule::Missed => "sichen audit --all; sichen describe job JOB",
        Rule::Late => "sichen doctor; sichen audit --all",
        Rule::NoSuccess => "sichen describe job JOB",
        Rule::NoWorker => "sichen get workers; sichen waiting",
        Rule::ClockStep => "sichen clock show",
    }
}
