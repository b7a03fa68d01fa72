//! What the tasks themselves wrote down, outside the scheduler.
//!
//! # Invariants
//! - A line is written whole and synced before the task goes on; half a line, at the end of a killed
//!   task, is none.
//!
//! # Not here
//! Writing it ([`crate::task`]), judging it ([`crate::judge`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The longest line.
pub const MAX_LINE_BYTES: usize = 2_048;

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It began.
    Begin,
    /// It committed a step.
    Step,
    /// The fence refused it.
    Refused,
    /// It did its last step and is about to report success.
    End,
}

/// One line of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What was done.
    pub kind: Kind,
    /// The job.
    pub job: String,
    /// The planned instant that it was told, in microseconds.
    pub planned_us: i64,
    /// The shard's number.
    pub shard: u32,
    /// The attempt's.
    pub attempt: u32,
    /// Its token.
    pub token: u64,
    /// Its worker's name.
    pub worker: String,
    /// The step, from 1; 0 for none.
    #[serde(default)]
    pub step: u32,
    /// This machine's clock, in microseconds.
    pub at_us: i64,
    /// What a careless program would write down: here a planted secret, which must not be left.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// One occasion to do something: a planned instant of a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occasion {
    /// The job.
    pub job: String,
    /// The shard.
    pub shard: u32,
    /// The instant.
    pub planned_us: i64,
}

impl Line {
    /// The occasion that the scheduler named.
    #[must_use]
    pub fn occasion(&self) -> Occasion {
        Occasion {
            job: self.job.clone(),
            shard: self.shard,
            planned_us: self.planned_us,
        }
    }
}

/// Reads what is complete of a file of evidence.
#[must_use]
pub fn read(text: &str) -> Vec<Line> {
    let lines = text.lines().filter(|l| l.len() <= MAX_LINE_BYTES);
    lines.filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// One attempt as its own evidence has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What for.
    pub occasion: Occasion,
    /// Its token.
    pub token: u64,
    /// Its worker.
    pub worker: String,
    /// When it began.
    pub began_us: i64,
    /// When it had done all.
    pub ended_us: Option<i64>,
    /// Whether the fence stopped it.
    pub refused: bool,
    /// The last step that it committed.
    pub steps: u32,
    /// The last that was heard of it.
    pub last_us: i64,
}

/// The attempts in a file of evidence, in the order of their begins.
#[must_use]
pub fn attempts(lines: &[Line]) -> Vec<Attempt> {
    let mut attempts: BTreeMap<(Occasion, u64), Attempt> = BTreeMap::new();
    for line in lines {
        let attempt = attempts.entry((line.occasion(), line.token));
        let attempt = attempt.or_insert_with(|| Attempt {
            occasion: line.occasion(),
            token: line.token,
            worker: line.worker.clone(),
            began_us: line.at_us,
            ended_us: None,
            refused: false,
            steps: 0,
            last_us: line.at_us,
        });
        attempt.began_us = attempt.began_us.min(line.at_us);
        attempt.last_us = attempt.last_us.max(line.at_us);
        attempt.steps = attempt.steps.max(line.step);
        match line.kind {
            Kind::End => attempt.ended_us = Some(line.at_us),
            Kind::Refused => attempt.refused = true,
            Kind::Begin | Kind::Step => {}
        }
    }
    let mut attempts: Vec<Attempt> = attempts.into_values().collect();
    attempts.sort_by_key(|a| (a.began_us, a.token));
    attempts
}

#[cfg(test)]
mod tests;
