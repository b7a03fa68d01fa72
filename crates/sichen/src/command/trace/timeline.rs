//! Events as a timeline for people.
//!
//! # Invariants
//! - Every event that changed something has its place in an entry: its number is in `events`.
//! - Entries are in the order of time; those of one instant in the order of the log.
//!
//! # Not here
//! Reading events, showing the timeline ([`super`]).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sichen_server::rest::wire::{Event, Run};

use super::super::shards::why;
use crate::output;

/// The longest position of a checkpoint that is shown, in characters.
const MAX_POSITION: usize = 40;
/// The longest failure that is shown, in characters.
const MAX_FAILURE: usize = 300;

/// One line of a life.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When, in UTC to the millisecond.
    pub at: String,
    /// Milliseconds after the first entry.
    pub after_ms: i64,
    /// The shard; absent for what concerns the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<i32>,
    /// The attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// In a word: `planned`, `created`, `granted`, `taken over`, `checkpoint`, `succeeded`, `failed`, …
    pub what: String,
    /// For people.
    pub text: String,
    /// The numbers of the events that it stands for.
    pub events: Vec<u64>,
}

/// What is remembered of a shard while its events pass.
#[derive(Default)]
struct Shard {
    worker: String,
    /// How its last attempt ended.
    ended: Option<String>,
    /// Since when it waits for another one: that end, or the retry of what had failed.
    waits: Option<Timestamp>,
    /// The entry of its checkpoints, while nothing else of it has come in between.
    checkpoints: Option<(usize, u64)>,
}

/// The timeline of `run`, or of one of its shards, from its events.
pub fn entries(run: &Run, shard: Option<i32>, events: &[Event], all: bool) -> Vec<Entry> {
    let mut line = Line {
        entries: Vec::new(),
        shards: BTreeMap::new(),
        all,
    };
    if let Some(planned) = &run.planned_at {
        line.push(planned, None, "planned", "the time of the schedule");
    }
    if shard.is_some() {
        line.push(&run.created_at, None, "created", "the run");
    }
    for event in events {
        match event.entity.as_str() {
            "run" => line.of_run(event),
            _ => line.of_shard(event),
        }
    }
    if let (Some(_), Some(ended)) = (shard, &run.ended_at) {
        line.push(ended, None, "settled", &format!("the run {}", run.state));
    }
    line.entries.sort_by_key(|e| moment(&e.at));
    let first = line.entries.first().and_then(|e| moment(&e.at));
    for entry in &mut line.entries {
        let after = moment(&entry.at).zip(first);
        let after = after.map_or(0, |(at, first)| at.duration_since(first).as_millis());
        entry.after_ms = i64::try_from(after).unwrap_or(i64::MAX);
        entry.at = moment(&entry.at).map_or_else(|| entry.at.clone(), |at| format!("{at:.3}"));
    }
    line.entries
}

/// The attempts that did not succeed, each with what followed, and the retries of the run.
pub fn setbacks(run: &Run, events: &[Event]) -> Vec<Entry> {
    let is_setback = |e: &&Event| match e.kind.as_str() {
        "attempt_ended" => e.data["end"].as_str() != Some("succeeded"),
        kind => kind == "run_reopened",
    };
    let events: Vec<Event> = events.iter().filter(is_setback).cloned().collect();
    let mut entries = entries(run, None, &events, true);
    // Without the frame of a life.
    entries.retain(|e| !e.events.is_empty());
    entries
}

fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

struct Line {
    entries: Vec<Entry>,
    shards: BTreeMap<i32, Shard>,
    all: bool,
}

impl Line {
    fn push(&mut self, at: &str, event: Option<&Event>, what: &str, text: &str) {
        self.entries.push(Entry {
            at: at.to_owned(),
            after_ms: 0,
            shard: event.and_then(shard_of),
            attempt: event.and_then(|e| e.attempt),
            what: what.to_owned(),
            text: text.to_owned(),
            events: event.map(|e| e.seq).into_iter().collect(),
        });
    }

    fn of_run(&mut self, e: &Event) {
        let count = |name: &str| e.data[name].as_u64().unwrap_or(0);
        let (what, text) = match e.kind.as_str() {
            "run_created" if e.data["plan"] == true => {
                ("created", format!("with a plan step, by {}", e.actor))
            }
            "run_created" => {
                let shards = output::count(count("total"), "shard");
                ("created", format!("{shards}, by {}", e.actor))
            }
            "run_expanded" => {
                let shards = output::count(count("total"), "shard");
                ("planned out", format!("the plan step found {shards}"))
            }
            // The grant before it says it.
            "run_started" => return self.joined(e),
            "stop_requested" => ("stopping", format!("{}, by {}", e.cause, e.actor)),
            "run_reopened" => {
                let shards = output::count(count("shards"), "shard");
                let round = count("round");
                (
                    "reopened",
                    format!("{shards}, round {round}, by {}", e.actor),
                )
            }
            "run_settled" => {
                let (ok, bad) = (count("succeeded"), count("failed"));
                let mut text = format!("{ok} of {} succeeded", count("total"));
                for (n, word) in [(bad, "failed"), (count("cancelled"), "cancelled")] {
                    if n > 0 {
                        text.push_str(&format!(", {n} {word}"));
                    }
                }
                if !e.cause.is_empty() {
                    text.push_str(&format!(" ({})", e.cause));
                }
                return self.push(&e.at, Some(e), &e.to, &text);
            }
            other => (other, e.cause.clone()),
        };
        self.push(&e.at, Some(e), what, &text);
    }

    /// Adds an event that needs no words to the entry before it.
    fn joined(&mut self, e: &Event) {
        match self.entries.last_mut() {
            Some(entry) => entry.events.push(e.seq),
            None => self.push(&e.at, Some(e), &e.kind, ""),
        }
    }

    fn of_shard(&mut self, e: &Event) {
        let no = shard_of(e).unwrap_or_default();
        if e.kind == "checkpoint_saved" {
            return self.checkpoint(no, e);
        }
        let shard = self.shards.entry(no).or_default();
        shard.checkpoints = None;
        let (what, text) = match e.kind.as_str() {
            "attempt_granted" => granted(shard, e),
            "attempt_recalled" => (
                "asked to yield".to_owned(),
                format!(
                    "its slot to run {} of priority {}, itself of {}",
                    e.data["by"], e.data["priority"], e.data["own"]
                ),
            ),
            "attempt_ended" => ended(shard, e),
            "report_refused" => (
                "refused".to_owned(),
                format!(
                    "a report of {} with token {}: {}",
                    e.actor,
                    output::or_dash(e.token),
                    refusal(&e.cause)
                ),
            ),
            "shard_stopped" => (
                "stopped".to_owned(),
                format!("while it waited ({})", e.cause),
            ),
            "shard_discarded" => {
                let said = |name: &str| e.data[name].as_str().unwrap_or_default();
                let by = match said("by") {
                    "" => e.actor.as_str(),
                    by => by,
                };
                let reason = output::visible(said("reason"));
                (
                    "discarded".to_owned(),
                    format!("no dead letter any more, by {by}: {reason}"),
                )
            }
            "shard_reopened" => {
                (shard.ended, shard.waits) = (None, moment(&e.at));
                let text = "waits again, with a new budget of attempts";
                ("reopened".to_owned(), text.to_owned())
            }
            other => (other.to_owned(), e.cause.clone()),
        };
        self.push(&e.at, Some(e), &what, &text);
    }

    fn checkpoint(&mut self, no: i32, e: &Event) {
        let seq = e.data["seq"].as_u64().unwrap_or(0);
        let shard = self.shards.entry(no).or_default();
        let (place, first) = match shard.checkpoints {
            Some(open) if !self.all => open,
            _ => {
                let open = (self.entries.len(), seq);
                shard.checkpoints = Some(open);
                self.push(&e.at, Some(e), "checkpoint", "");
                open
            }
        };
        let position = e.data["position"].as_str().unwrap_or_default();
        let position = output::short(position, MAX_POSITION);
        let numbers = if first == seq {
            format!("number {seq}")
        } else {
            format!("numbers {first} to {seq}, the last")
        };
        let done = match e.data["done"].as_u64() {
            Some(done) if done > 0 => format!("; {} done", output::grouped(done)),
            _ => String::new(),
        };
        let entry = &mut self.entries[place];
        entry.at.clone_from(&e.at);
        entry.text = format!("{numbers} at {position}{done}");
        if entry.events.last() != Some(&e.seq) {
            entry.events.push(e.seq);
        }
    }
}

fn granted(shard: &mut Shard, e: &Event) -> (String, String) {
    let worker = e.data["worker"].as_str().unwrap_or_default().to_owned();
    let mut text = format!("to {worker}, token {}", output::or_dash(e.token));
    let from = e.data["checkpoint_seq"].as_u64().unwrap_or(0);
    if from > 0 {
        text.push_str(&format!(", from checkpoint {from}"));
    }
    let mut what = "granted";
    if shard.ended.take().is_some_and(|end| end == "lost") {
        what = "taken over";
        text.push_str(&format!(", after {} was lost", shard.worker));
    }
    let wait = shard.waits.take().zip(moment(&e.at));
    let wait = wait.map(|(from, to)| to.duration_since(from));
    if let Some(wait) = wait.filter(|w| w.as_millis() >= 1) {
        text.push_str(&format!(", after a wait of {}", output::span(wait)));
    }
    shard.worker = worker;
    (what.to_owned(), text)
}

fn ended(shard: &mut Shard, e: &Event) -> (String, String) {
    let field = |name: &str| e.data[name].as_str().unwrap_or_default();
    let end = match field("end") {
        "" => e.to.as_str(),
        end => end,
    };
    let mut parts = Vec::new();
    let failure = why(field("code"), field("message"));
    if !failure.is_empty() {
        parts.push(output::gist(&failure, MAX_FAILURE));
    }
    let follows = match e.to.as_str() {
        "retry" => "it will be tried again",
        "scheduled" => "it waits again",
        "failed" => "the shard has failed",
        "cancelled" if end != "cancelled" => "the shard is cancelled",
        "succeeded" if end != "succeeded" => "a rule says to go on as if it had succeeded",
        _ => "",
    };
    if !follows.is_empty() {
        parts.push(follows.to_owned());
    }
    if parts.is_empty() {
        parts.push(format!("by {}", e.actor));
    }
    shard.ended = Some(end.to_owned());
    shard.waits = moment(&e.at).filter(|_| matches!(e.to.as_str(), "retry" | "scheduled"));
    (end.replace('_', " "), parts.join(" → "))
}

/// Why a report was refused, in words.
fn refusal(cause: &str) -> &str {
    match cause {
        "stale" => "the shard has a newer token",
        "not_running" => "nothing runs under it any more",
        "contradicts" => "another end was reported before",
        "session_over" => "its session is over",
        other => other,
    }
}

fn shard_of(e: &Event) -> Option<i32> {
    let (_, no) = e.id.split_once('/').filter(|_| e.entity == "shard")?;
    no.parse().ok()
}

#[cfg(test)]
mod tests;
