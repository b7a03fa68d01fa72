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

use super::{Alert, What};

mod words;

pub use words::what_to_do;

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

/// In which words people are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Chinese.
    Chinese,
}

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
        "summary_zh": summary_in(Language::Chinese, what, alert),
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
    summary_in(Language::English, what, alert)
}

/// One line for people, in their language. What a failing process wrote stays as it wrote it.
#[must_use]
pub fn summary_in(language: Language, what: What, alert: &Alert) -> String {
    let over = what == What::Recovered;
    let told = || alert.members.iter().filter(|(_, m)| over || m.active);
    let mut names: Vec<&str> = told().map(|(subject, _)| subject.as_str()).collect();
    names.retain(|name| !name.is_empty());
    let named = listed(language, &names, told().count(), alert.more);
    let cause = told()
        .map(|(_, m)| m.cause.as_str())
        .find(|cause| !cause.is_empty() && !over)
        .unwrap_or_default();
    let about = words::about(language, alert.rule);
    let head = words::head(language, what);
    let (colon, open, close) = match language {
        Language::English => (": ", " (", ")"),
        Language::Chinese => ("：", "（", "）"),
    };
    let mut line = format!("{head}{about}");
    if !named.is_empty() {
        line.push_str(&format!("{colon}{named}"));
    }
    if !cause.is_empty() {
        line.push_str(&format!("{open}{cause}{close}"));
    }
    line
}

/// The first of these names, and how many there are besides.
fn listed(language: Language, names: &[&str], count: usize, more: bool) -> String {
    /// Subjects that a line names.
    const NAMED: usize = 3;
    let comma = match language {
        Language::English => ", ",
        Language::Chinese => "、",
    };
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>();
    let named = named.join(comma);
    if names.len() <= NAMED && !more {
        return named;
    }
    let beyond = count.saturating_sub(NAMED).max(1);
    match (language, more) {
        (Language::English, true) => format!("{named} and {beyond} more"),
        (Language::English, false) => format!("{named} and {beyond} others"),
        (Language::Chinese, true) => format!("{named}，另有 {beyond} 个以上"),
        (Language::Chinese, false) => format!("{named}，另有 {beyond} 个"),
    }
}
