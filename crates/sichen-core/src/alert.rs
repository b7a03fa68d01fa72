//! What people are told without being asked: when a condition is an alert, and when a notice of it goes out.
//!
//! A pass hands [`step`] what is wrong now ([`Finding`]) and the alerts that are known, and is told which
//! notices are due. Findings of one rule and one cause are one alert, however many jobs they are of, so
//! that a storm of failures is one notice.
//!
//! # Invariants
//! - An alert is told once when it opens, and its end once. Between them it is told again only when it has
//!   lasted ([`Policy::repeat`]) or when a job joined it after a calm ([`CALM`]), each time more rarely.
//! - What goes and comes back is believed to have gone only after a wait that doubles, so that flapping
//!   makes few notices, however long it lasts.
//! - In silence nothing is told and nothing changes: what outlasts the silence is told then. A subject that
//!   is silenced by its name takes no part in an alert of others, and joins it as new at the end.
//! - An alert of which not all was looked at is not over.
//!
//! # Not here
//! Looking for what is wrong ([`judge`]), what a notice says and how often it is tried ([`notice`]),
//! sending (the server).

pub mod judge;
pub mod notice;
mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::lifecycle::words;
use crate::name::JobName;

pub use rule::{Policy, Rule};

/// Subjects of one alert that are named and looked after; of others it is known only that there are more.
pub const MAX_MEMBERS: usize = 100;
/// Alerts of one rule that are open or remembered at once. Those that are over make room; a condition beyond
/// is not told of until one of them is over, and the log says so.
pub const MAX_ALERTS: usize = 500;
/// The longest cause of a finding, in bytes; what is longer is cut.
pub const MAX_CAUSE_BYTES: usize = 500;
/// Jobs that are watched for having no success.
pub const MAX_WATCHED: usize = 500;
/// Silences of a configuration.
pub const MAX_SILENCES: usize = 100;
/// So long no subject must have joined an alert for the next one that joins to be told of at once.
pub const CALM: SignedDuration = SignedDuration::from_mins(5);
/// The first of the doubling waits before an alert that came back is believed to be over.
const FLAP: SignedDuration = SignedDuration::from_mins(1);

words! {
    /// How far an alert has come.
    Phase {
        /// The condition holds, but not for long enough yet.
        Pending = "pending",
        /// It was told.
        Open = "open",
        /// Its end was told; it is remembered for a while.
        Over = "over",
        /// No alert: since when a watched job has had no success.
        Watched = "watched",
    }
}

/// Nothing is told of these until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Of this rule alone.
    pub rule: Option<Rule>,
    /// Of this subject alone, as a notice names it.
    pub subject: Option<String>,
    /// Its end.
    pub until: Timestamp,
}

impl Silence {
    fn is_of(&self, rule: Rule, subject: &str, now: Timestamp) -> bool {
        now < self.until
            && self.rule.is_none_or(|r| r == rule)
            && self.subject.as_deref().is_none_or(|s| s == subject)
    }
}

/// What is looked for, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which cluster this is, said in each notice.
    pub source: String,
    /// From one look to the next.
    pub every: SignedDuration,
    /// How each rule is applied.
    pub rules: BTreeMap<Rule, Policy>,
    /// Jobs that must succeed at least this often.
    pub no_success: Vec<(JobName, SignedDuration)>,
    /// What is not told.
    pub silences: Vec<Silence>,
    /// The names of all receivers.
    pub receivers: Vec<String>,
    /// How often it is said outside that alerts work.
    pub heartbeat: Option<SignedDuration>,
}

impl Settings {
    /// How a rule is applied.
    #[must_use]
    pub fn policy(&self, rule: Rule) -> Policy {
        let said = self.rules.get(&rule).cloned();
        said.unwrap_or_else(|| Policy::usual(rule))
    }

    /// Who is told of a rule.
    #[must_use]
    pub fn told_of(&self, rule: Rule) -> Vec<String> {
        let named = self.policy(rule).receivers;
        if named.is_empty() {
            return self.receivers.clone();
        }
        named
    }

    /// Whether `subject` itself is silenced, not the rule or all.
    fn is_left_out(&self, rule: Rule, subject: &str, now: Timestamp) -> bool {
        let mut named = self.silences.iter().filter(|s| s.subject.is_some());
        named.any(|silence| silence.is_of(rule, subject, now))
    }

    fn is_silent(&self, alert: &Alert, now: Timestamp) -> bool {
        let silenced = |subject: &str| {
            let mut silences = self.silences.iter();
            silences.any(|silence| silence.is_of(alert.rule, subject, now))
        };
        // One member that is not silenced speaks for the alert.
        let mut members = alert.members.iter().filter(|(_, m)| m.active).peekable();
        if members.peek().is_some() {
            return members.all(|(subject, _)| silenced(subject));
        }
        !alert.members.is_empty() && alert.members.keys().all(|subject| silenced(subject))
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// By which rule.
    pub rule: Rule,
    /// What it has in common with others that are told of together.
    pub group: String,
    /// The job, or the pool; empty if it is about all.
    pub subject: String,
    /// Why, for people.
    pub cause: String,
    /// Since when.
    pub since: Timestamp,
}

/// A subject of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Since when it is.
    pub since: Timestamp,
    /// Why, for people.
    pub cause: String,
    /// Whether it still is; one that is no longer is kept until the alert is over, so that its coming
    /// back is nothing new.
    pub active: bool,
}

/// By what an alert is told from others.
pub type Key = (Rule, String);

/// A key as a store has it.
#[must_use]
pub fn name_of((rule, group): &Key) -> String {
    format!("{rule}:{group}")
}

/// An alert as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// What it is about.
    pub rule: Rule,
    /// What its subjects have in common.
    pub group: String,
    /// How far it has come.
    pub phase: Phase,
    /// When it came to its phase; of [`Phase::Open`]: since when the condition holds.
    pub since: Timestamp,
    /// When the condition came, or was first seen to have gone: whichever was last.
    pub turned_at: Timestamp,
    /// When a subject joined last.
    pub joined_at: Timestamp,
    /// When it was told of last.
    pub told_at: Option<Timestamp>,
    /// How often it came back soon after its end.
    pub flaps: u32,
    /// How often a new subject was told of.
    pub widened: u32,
    /// Whether it has subjects beyond [`MAX_MEMBERS`], by the last pass that looked at all.
    pub more: bool,
    /// Its subjects.
    pub members: BTreeMap<String, Member>,
}

impl Alert {
    /// By what it is told from others.
    #[must_use]
    pub fn key(&self) -> Key {
        (self.rule, self.group.clone())
    }

    /// The key as a store has it.
    #[must_use]
    pub fn name(&self) -> String {
        name_of(&self.key())
    }

    fn new(finding: &Finding, flaps: u32, now: Timestamp) -> Self {
        Self {
            rule: finding.rule,
            group: finding.group.clone(),
            phase: Phase::Pending,
            since: now,
            turned_at: now,
            joined_at: now,
            told_at: None,
            flaps,
            widened: 0,
            more: false,
            members: BTreeMap::new(),
        }
    }

    /// Since when a job that is watched has had no success.
    #[must_use]
    pub fn watched(job: &JobName, since: Timestamp) -> Self {
        Self {
            rule: Rule::NoSuccess,
            group: format!("since {job}"),
            phase: Phase::Watched,
            since,
            turned_at: since,
            joined_at: since,
            told_at: None,
            flaps: 0,
            widened: 0,
            more: false,
            members: BTreeMap::new(),
        }
    }

    /// Takes over what was found of it; whether a subject is new to it.
    fn join(&mut self, findings: &[&Finding], whole: bool, now: Timestamp) -> bool {
        let found: BTreeSet<&str> = findings.iter().map(|f| f.subject.as_str()).collect();
        for (subject, member) in &mut self.members {
            member.active = found.contains(subject.as_str());
        }
        // What was not looked at may still be.
        self.more &= !whole;
        let mut joined = false;
        for finding in findings {
            if let Some(member) = self.members.get_mut(&finding.subject) {
                member.cause.clone_from(&finding.cause);
                continue;
            }
            if self.members.len() >= MAX_MEMBERS && !self.make_room() {
                self.more = true;
                continue;
            }
            joined = true;
            let member = Member {
                since: finding.since,
                cause: finding.cause.clone(),
                active: true,
            };
            self.members.insert(finding.subject.clone(), member);
        }
        if joined {
            self.joined_at = now;
        }
        joined
    }

    /// Forgets the subject that is well and was found first: one that is not well is worth more.
    fn make_room(&mut self) -> bool {
        let well = self.members.iter().filter(|(_, m)| !m.active);
        let oldest = well.min_by_key(|(_, m)| m.since).map(|(s, _)| s.clone());
        oldest.is_some_and(|subject| self.members.remove(&subject).is_some())
    }
}

words! {
    /// Why a notice is sent.
    What {
        /// The alert opened.
        Raised = "raised",
        /// A subject joined it.
        Widened = "widened",
        /// It lasts.
        Repeated = "repeated",
        /// It is over.
        Recovered = "recovered",
    }
}

/// What a pass saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Whether that is all: every job could be looked at.
    pub whole: bool,
}

/// What comes of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Alerts that changed.
    pub keep: Vec<Alert>,
    /// Alerts that are forgotten.
    pub forget: Vec<Key>,
    /// What is to be told, of which alert as it is now.
    pub tell: Vec<(What, Alert)>,
    /// Conditions that are not told of since their rule has [`MAX_ALERTS`] already.
    pub dropped: Vec<Key>,
}

/// What becomes of the alerts that are `known`, where `seen` is what is wrong at `now`.
///
/// What comes back is to be written in one transaction: else a notice could be lost or be told twice.
#[must_use]
pub fn step(settings: &Settings, known: &[Alert], seen: &Seen, now: Timestamp) -> Step {
    let mut by_key: BTreeMap<Key, Vec<&Finding>> = BTreeMap::new();
    for finding in &seen.findings {
        let left_out = settings.is_left_out(finding.rule, &finding.subject, now);
        if !left_out && settings.policy(finding.rule).on {
            let key = (finding.rule, finding.group.clone());
            by_key.entry(key).or_default().push(finding);
        }
    }
    let mut step = Step::default();
    let mut rooms: BTreeMap<Rule, Room> = BTreeMap::new();
    for alert in known.iter().filter(|alert| alert.phase != Phase::Watched) {
        // Nobody asks any more: neither it nor its end is told.
        if !settings.policy(alert.rule).on {
            step.forget.push(alert.key());
            continue;
        }
        let next = match by_key.remove(&alert.key()) {
            Some(findings) => active(settings, alert.clone(), &findings, seen.whole, now),
            None => absent(settings, alert.clone(), seen.whole, now),
        };
        match next {
            Next::Forget => step.forget.push(alert.key()),
            Next::Keep(kept, told) => {
                step.tell.extend(told);
                rooms.entry(alert.rule).or_default().take(&kept);
                if kept != *alert {
                    step.keep.push(kept);
                }
            }
        }
    }
    for (key, findings) in by_key {
        let Some(first) = findings.first() else {
            continue;
        };
        let room = rooms.entry(key.0).or_default();
        if room.taken >= MAX_ALERTS {
            let Some((_, over)) = room.over.pop_first() else {
                step.dropped.push(key);
                continue;
            };
            step.keep.retain(|alert| alert.key() != over);
            step.forget.push(over);
            room.taken -= 1;
        }
        room.taken += 1;
        let new = Alert::new(first, 0, now);
        if let Next::Keep(kept, told) = active(settings, new, &findings, seen.whole, now) {
            step.tell.extend(told);
            step.keep.push(kept);
        }
    }
    step
}

/// How many alerts a rule has, and which of them can make room, the longest over first.
#[derive(Default)]
struct Room {
    taken: usize,
    over: BTreeSet<(Timestamp, Key)>,
}

impl Room {
    fn take(&mut self, alert: &Alert) {
        self.taken += 1;
        if alert.phase == Phase::Over {
            self.over.insert((alert.since, alert.key()));
        }
    }
}

/// What becomes of one alert.
enum Next {
    Keep(Alert, Option<(What, Alert)>),
    Forget,
}

fn active(
    settings: &Settings,
    alert: Alert,
    findings: &[&Finding],
    whole: bool,
    now: Timestamp,
) -> Next {
    let policy = settings.policy(alert.rule);
    let mut alert = match (alert.phase, findings.first()) {
        (Phase::Over, Some(first)) => Alert::new(first, alert.flaps.saturating_add(1), now),
        _ => alert,
    };
    if alert.members.values().all(|member| !member.active) {
        alert.turned_at = now;
    }
    let left_out = |subject: &str| settings.is_left_out(alert.rule, subject, now);
    alert.members.retain(|subject, _| !left_out(subject));
    let joined = alert.joined_at;
    let is_new = alert.join(findings, whole, now);
    let told = match alert.phase {
        Phase::Pending => {
            let held = now.duration_since(alert.since) >= policy.hold;
            let tell = held && !settings.is_silent(&alert, now);
            tell.then_some(What::Raised)
        }
        Phase::Open if settings.is_silent(&alert, now) => None,
        Phase::Open => {
            let since_told = alert.told_at.map(|told| now.duration_since(told));
            let calm = now.duration_since(joined) >= doubled(CALM, alert.widened);
            if is_new && calm {
                alert.widened = alert.widened.saturating_add(1);
                Some(What::Widened)
            } else {
                let lasts = since_told.is_none_or(|length| length >= policy.repeat);
                lasts.then_some(What::Repeated)
            }
        }
        Phase::Over | Phase::Watched => None,
    };
    if told.is_some() {
        alert.told_at = Some(now);
    }
    if told == Some(What::Raised) {
        alert.phase = Phase::Open;
    }
    let told = told.map(|what| (what, alert.clone()));
    Next::Keep(alert, told)
}

fn absent(settings: &Settings, mut alert: Alert, whole: bool, now: Timestamp) -> Next {
    let policy = settings.policy(alert.rule);
    match alert.phase {
        // What was told once and came back only for a moment is still remembered.
        Phase::Pending if alert.flaps > 0 => {
            alert.phase = Phase::Over;
            alert.since = now;
            Next::Keep(alert, None)
        }
        Phase::Pending | Phase::Watched => Next::Forget,
        Phase::Open => {
            if alert.members.values().any(|member| member.active) {
                alert.turned_at = now;
            }
            // Silence is asked of those that it was about.
            let silent = settings.is_silent(&alert, now);
            let rule = alert.rule;
            let left_out = |subject: &str| settings.is_left_out(rule, subject, now);
            // Whose silence lasts is not told of as being well.
            if !alert.members.keys().all(|subject| left_out(subject)) {
                alert.members.retain(|subject, _| !left_out(subject));
            }
            for member in alert.members.values_mut() {
                member.active = false;
            }
            let gone = now.duration_since(alert.turned_at);
            // Those that it doesn't name were not all looked at.
            let unsure = alert.more && !whole;
            if silent || unsure || gone < policy.clear_after(alert.flaps) {
                return Next::Keep(alert, None);
            }
            alert.phase = Phase::Over;
            alert.told_at = Some(now);
            let told = alert.clone();
            alert.since = now;
            Next::Keep(alert, Some((What::Recovered, told)))
        }
        Phase::Over => {
            let remembered = policy.repeat.max(policy.clear_after(alert.flaps));
            if now.duration_since(alert.since) < remembered {
                return Next::Keep(alert, None);
            }
            Next::Forget
        }
    }
}

/// `length`, doubled so many times, at most a day.
fn doubled(length: SignedDuration, times: u32) -> SignedDuration {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    let factor = 1i32 << times.min(20);
    length.checked_mul(factor).unwrap_or(DAY).min(DAY)
}

#[cfg(test)]
mod tests;
