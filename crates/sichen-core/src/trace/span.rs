//! The spans of a run, made of its row and its events.
//!
//! # Invariants
//! - The same row and events give the same spans, whoever makes them and whenever: what is told twice is the
//!   same twice.
//! - A run has one root, the span of its first round; a later round is a child of it, and an attempt of its
//!   round.
//! - No span ends before it begins.
//! - However long a run's history is, [`MAX_SPANS`] spans with [`MAX_MARKS`] marks each are made of it.
//!
//! # Not here
//! When a run is told (`sichen_engine::tracer`); how spans are written (`sichen_server::traces`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{SpanId, TraceId};
use crate::event::{Entity, Event, Kind};
use crate::ids::{Occasion, ShardKey, Token};
use crate::lifecycle::{AttemptEnd, RunState};
use crate::model::Run;

/// Spans that are made of one round of a run; attempts beyond are counted.
pub const MAX_SPANS: usize = 10_000;
/// Marks of one span: checkpoints and what else happened in it; the ones beyond are counted.
pub const MAX_MARKS: usize = 64;
/// A round that was reopened sooner than this after its end is told again with the next one: nobody may have
/// told it.
pub const TOLD_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// What is said of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
}

/// Names with their values.
pub type Says = Vec<(&'static str, Value)>;

/// Something that happened at one instant of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// As events are called.
    pub name: &'static str,
    /// More of it.
    pub says: Says,
}

/// A part of a run's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The trace it is a part of.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// What it is a part of; nothing of the root.
    pub parent: Option<SpanId>,
    /// The attempt that it goes on from, if that did not succeed.
    pub follows: Option<SpanId>,
    /// For people.
    pub name: String,
    /// Its begin.
    pub from: Timestamp,
    /// Its end, not before its begin.
    pub to: Timestamp,
    /// What is known of it.
    pub says: Says,
    /// What happened in it.
    pub marks: Vec<Mark>,
    /// Marks that are left out.
    pub unmarked: u32,
    /// Why it failed, if it did.
    pub failed: Option<String>,
}

impl Span {
    fn mark(&mut self, event: &Event, says: Says) {
        if self.marks.len() < MAX_MARKS {
            self.marks.push(Mark {
                at: event.at,
                name: event.kind.word(),
                says,
            });
        } else {
            self.unmarked = self.unmarked.saturating_add(1);
        }
    }
}

/// A run whose events are heard one after another.
#[derive(Debug)]
pub struct Telling {
    trace: TraceId,
    run: Run,
    round: u32,
    /// The span of the present round.
    own: Span,
    /// Attempts of the present round.
    attempts: Vec<Span>,
    /// Where in `attempts` a shard's running or last one is, and its number.
    last: BTreeMap<ShardKey, (Option<usize>, u32)>,
    /// Of each shard, the last attempt that did not succeed.
    before: BTreeMap<ShardKey, (SpanId, AttemptEnd)>,
    /// Attempts for which there was no room.
    left_out: u32,
    /// Spans of earlier rounds that may not have been told.
    earlier: Vec<Span>,
    settled_at: Option<Timestamp>,
    /// Whether what is heard from here on is newer than the run's row.
    is_over: bool,
}

impl Telling {
    /// Of this run, before its first event.
    #[must_use]
    pub fn new(run: Run) -> Self {
        let trace = TraceId::of(run.job, run.id);
        let begin = match (&run.occasion, run.backfill) {
            // Its delay is a part of it.
            (Occasion::Planned { at, rerun: 0 }, None) => (*at).min(run.created_at),
            _ => run.created_at,
        };
        Self {
            own: round_of(&run, trace, 1, begin),
            trace,
            run,
            round: 1,
            attempts: Vec::new(),
            last: BTreeMap::new(),
            before: BTreeMap::new(),
            left_out: 0,
            earlier: Vec::new(),
            settled_at: None,
            is_over: false,
        }
    }

    /// What happened next, oldest first: all events of the run and its shards. Those of a round that began
    /// after the row was read are left to when that ends.
    pub fn hear(&mut self, event: &Event) {
        let again = event.kind == Kind::RunReopened && self.round >= self.run.round;
        self.is_over |= again;
        match &event.entity {
            _ if self.is_over => {}
            Entity::Run(run) if *run == self.run.id => self.of_run(event),
            Entity::Shard(key) if key.run == self.run.id => self.of_shard(*key, event),
            _ => {}
        }
    }

    /// Attempts of the last round for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> u32 {
        self.left_out
    }

    /// The spans of the last round that ended, and of those before it that nobody may have told.
    /// `whole` says whether all events were heard.
    #[must_use]
    pub fn spans(mut self, whole: bool) -> Vec<Span> {
        let outcome = self.outcome();
        self.own.says.extend(outcome);
        if self.left_out > 0 || !whole {
            let left_out = i64::from(self.left_out);
            self.own
                .says
                .push(("sichen.attempts_left_out", Value::Number(left_out)));
            self.own.says.push(("sichen.is_whole", Value::Flag(false)));
        }
        let mut spans = self.earlier;
        spans.push(self.own);
        // One that has not ended, as far as was heard, is not told.
        spans.extend(
            self.attempts
                .into_iter()
                .filter(|span| span.to > Timestamp::MIN),
        );
        spans
    }

    /// How the run ended, which its row says.
    fn outcome(&mut self) -> Says {
        let run = &self.run;
        let ended = run.ended_at.or(self.settled_at);
        self.own.to = ended.unwrap_or(self.own.from).max(self.own.from);
        let failed = matches!(run.state, RunState::Failed | RunState::Partial);
        self.own.failed = failed.then(|| match run.reason.as_str() {
            "" => run.state.word().to_owned(),
            reason => reason.to_owned(),
        });
        let counts = &run.counters;
        let mut says = vec![
            ("sichen.state", text(run.state.word())),
            ("sichen.shards", Value::Number(counts.total.into())),
        ];
        let counted = [
            ("sichen.shards_failed", counts.failed),
            ("sichen.shards_cancelled", counts.cancelled),
        ];
        let counted = counted.into_iter().filter(|(_, n)| *n > 0);
        says.extend(counted.map(|(name, n)| (name, Value::Number(n.into()))));
        if let Some((cause, _)) = run.stop {
            says.push(("sichen.stop", text(cause.word())));
        }
        says
    }

    fn of_run(&mut self, event: &Event) {
        match event.kind {
            Kind::RunSettled => self.settled_at = Some(event.at),
            Kind::RunReopened => self.reopened(event),
            Kind::RunReleased | Kind::RunStarted => self.own.mark(event, Vec::new()),
            Kind::RunExpanded => {
                let total = number(event, "total");
                self.own.mark(event, vec![("sichen.shards", total)]);
            }
            Kind::StopRequested => {
                let by = vec![
                    ("sichen.stop", text(&event.cause)),
                    ("sichen.actor", text(&event.actor)),
                ];
                self.own.mark(event, by);
            }
            _ => {}
        }
    }

    /// The next round begins. The one before was told when it had ended, if there was time.
    fn reopened(&mut self, event: &Event) {
        let ended = self.settled_at.take();
        let told = ended.is_some_and(|at| event.at.duration_since(at) >= TOLD_WITHIN);
        self.round = self.round.saturating_add(1);
        let begun = round_of(&self.run, self.trace, self.round, event.at);
        let mut own = std::mem::replace(&mut self.own, begun);
        let attempts = std::mem::take(&mut self.attempts);
        self.last.clear();
        self.left_out = 0;
        if told {
            self.earlier.clear();
            return;
        }
        own.to = ended.unwrap_or(own.from).max(own.from);
        own.failed = Some("reopened".to_owned());
        let room = MAX_SPANS.saturating_sub(self.earlier.len());
        let spans = std::iter::once(own).chain(attempts);
        self.earlier
            .extend(spans.filter(|span| span.to > Timestamp::MIN).take(room));
    }

    fn of_shard(&mut self, key: ShardKey, event: &Event) {
        match event.kind {
            Kind::AttemptGranted => self.granted(key, event),
            Kind::AttemptEnded => self.ended(key, event),
            Kind::CheckpointSaved => {
                let says = vec![
                    ("sichen.checkpoint", number(event, "seq")),
                    ("sichen.done", number(event, "done")),
                ];
                self.mark(key, event, says);
            }
            Kind::AttemptRecalled => {
                self.mark(key, event, vec![("sichen.by_run", number(event, "by"))]);
            }
            // It may come long after its attempt, from one that nobody knows.
            Kind::ReportRefused => {
                let token = event.token.unwrap_or(Token(0));
                let says = vec![
                    ("sichen.shard", Value::Number(key.no.0.into())),
                    ("sichen.token", int(token.0)),
                    ("sichen.cause", text(&event.cause)),
                    ("sichen.actor", text(&event.actor)),
                ];
                self.own.mark(event, says);
            }
            _ => {}
        }
    }

    fn granted(&mut self, key: ShardKey, event: &Event) {
        let attempt = event.attempt.unwrap_or(0);
        if self.attempts.len() + 1 >= MAX_SPANS {
            self.left_out = self.left_out.saturating_add(1);
            self.last.insert(key, (None, attempt));
            return;
        }
        let token = event.token.unwrap_or(Token(0));
        let before = self.before.get(&key);
        let name = &self.run.job_name;
        let mut says = vec![
            ("sichen.namespace", text(&name.namespace)),
            ("sichen.job", text(&name.name)),
            ("sichen.run", int(self.run.id.0)),
            ("sichen.round", Value::Number(self.round.into())),
            ("sichen.shard", Value::Number(key.no.0.into())),
            ("sichen.attempt", Value::Number(attempt.into())),
            ("sichen.token", int(token.0)),
            ("sichen.worker", said(event, "worker")),
            ("sichen.session", number(event, "session")),
        ];
        if let Some((_, end)) = before {
            says.push(("sichen.is_takeover", Value::Flag(*end == AttemptEnd::Lost)));
            says.push(("sichen.after", text(end.word())));
        }
        let what = match key.no.0 {
            -1 => "plan step".to_owned(),
            no => format!("shard {no}"),
        };
        self.last.insert(key, (Some(self.attempts.len()), attempt));
        self.attempts.push(Span {
            trace: self.trace,
            id: SpanId::of(key, token),
            parent: Some(self.own.id),
            follows: before.map(|(id, _)| *id),
            name: format!("{name} {what} attempt {attempt}"),
            from: event.at,
            to: Timestamp::MIN,
            says,
            marks: Vec::new(),
            unmarked: 0,
            failed: None,
        });
    }

    fn ended(&mut self, key: ShardKey, event: &Event) {
        let end = AttemptEnd::parse(&event.cause);
        let Some(span) = self.running(key, event) else {
            return;
        };
        span.to = event.at.max(span.from);
        span.says.push(("sichen.end", text(&event.cause)));
        let (code, message) = (words(event, "code"), words(event, "message"));
        if !code.is_empty() {
            span.says.push(("sichen.code", Value::Text(code.clone())));
        }
        let is_bad = matches!(
            end,
            Some(AttemptEnd::Failed | AttemptEnd::TimedOut | AttemptEnd::Lost)
        );
        span.failed = is_bad.then_some(match message.is_empty() {
            true => code,
            false => message,
        });
        let id = span.id;
        match end {
            Some(end) if end != AttemptEnd::Succeeded => self.before.insert(key, (id, end)),
            _ => self.before.remove(&key),
        };
    }

    fn mark(&mut self, key: ShardKey, event: &Event, says: Says) {
        if let Some(span) = self.running(key, event) {
            span.mark(event, says);
        }
    }

    /// The span of the attempt that the event is about, if it is told.
    fn running(&mut self, key: ShardKey, event: &Event) -> Option<&mut Span> {
        let (place, attempt) = self.last.get(&key)?;
        let is_of = event.attempt.is_none_or(|of| of == *attempt);
        let place = (*place).filter(|_| is_of)?;
        self.attempts.get_mut(place)
    }
}

/// The span of a round that begins, with what is known of the run from the start.
fn round_of(run: &Run, trace: TraceId, round: u32, from: Timestamp) -> Span {
    let name = &run.job_name;
    let mut says = vec![
        ("sichen.namespace", text(&name.namespace)),
        ("sichen.job", text(&name.name)),
        ("sichen.run", int(run.id.0)),
        ("sichen.revision", int(run.revision.0.into())),
        ("sichen.round", Value::Number(round.into())),
        ("sichen.pool", text(&run.terms.pool)),
        ("sichen.handler", text(&run.terms.handler)),
        ("sichen.occasion", Value::Text(run.occasion.key())),
    ];
    if let Some(at) = run.occasion.planned_at() {
        says.push(("sichen.planned_at", text(&at)));
    }
    if let Some(backfill) = run.backfill {
        says.push(("sichen.backfill", int(backfill.0)));
    }
    Span {
        trace,
        id: SpanId::of_round(run.id, round),
        parent: (round > 1).then(|| SpanId::of_round(run.id, 1)),
        follows: None,
        name: match round {
            1 => name.to_string(),
            _ => format!("{name} round {round}"),
        },
        from,
        to: from,
        says,
        marks: Vec::new(),
        unmarked: 0,
        failed: None,
    }
}

fn text(value: &(impl ToString + ?Sized)) -> Value {
    Value::Text(value.to_string())
}

fn int(value: u64) -> Value {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A number of the event's data; 0 if it has none.
fn number(event: &Event, name: &str) -> Value {
    let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
    Value::Number(data[name].as_i64().unwrap_or(0))
}

fn said(event: &Event, name: &str) -> Value {
    Value::Text(words(event, name))
}

/// A text of the event's data; empty if it has none.
fn words(event: &Event, name: &str) -> String {
    let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
    data[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "span_tests.rs"]
mod tests;
