//! What an importer hands on: documents, remarks, and each job's times as its source has them.
//!
//! # Not here
//! Reading a source ([`super::crontab`]), printing ([`super`]).

use serde_json::{Map, Value, json};
use sichen_audit::Timetable;
use sichen_core::document::{Calendars, Document, check};
use sichen_core::ids::JobUid;

/// The last second through which times are compared.
const LAST: i64 = 16_725_225_600;

/// How much a remark matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not imported.
    Refused,
    /// Imported, with a difference that somebody should know of.
    Warning,
    /// Nothing to do.
    Note,
}

impl Level {
    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Refused => "refused",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// What there is to say about a line or field of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Line, from 1.
    pub line: u64,
    pub level: Level,
    /// The field, such as `spec.suspend`, or empty.
    pub field: String,
    pub message: String,
}

/// One job.
#[derive(Debug)]
pub struct Imported {
    /// Line at which the source says it, from 1.
    pub line: u64,
    /// The document's text, as values.
    pub document: Value,
    /// Said above it: the source's own words.
    pub comments: Vec<String>,
    /// Its times by the source's own rules.
    pub source: Vec<Timetable>,
    /// Switched off at the source.
    pub paused: bool,
}

/// All that a source gives.
#[derive(Debug, Default)]
pub struct Import {
    pub jobs: Vec<Imported>,
    pub remarks: Vec<Remark>,
}

impl Import {
    pub fn say(&mut self, line: u64, level: Level, field: &str, message: impl Into<String>) {
        self.remarks.push(Remark {
            line,
            level,
            field: field.to_owned(),
            message: message.into(),
        });
    }

    pub fn refused(&self) -> bool {
        self.remarks
            .iter()
            .any(|remark| remark.level == Level::Refused)
    }

    /// Holds the jobs to what `sichen apply` takes: those that it would not are refused.
    pub fn keep_valid(&mut self) {
        let (mut kept, mut remarks) = (Vec::new(), Vec::new());
        for job in std::mem::take(&mut self.jobs) {
            let problems = job.problems();
            remarks.extend(problems.iter().map(|(field, message)| Remark {
                line: job.line,
                level: Level::Refused,
                field: field.clone(),
                message: message.clone(),
            }));
            if problems.is_empty() {
                kept.push(job);
            }
        }
        self.jobs = kept;
        self.remarks.extend(remarks);
    }
}

impl Imported {
    /// The document as the rest of the program has it.
    pub fn read(&self) -> Result<Document, String> {
        serde_json::from_value(self.document.clone()).map_err(|e| e.to_string())
    }

    fn problems(&self) -> Vec<(String, String)> {
        match self.read() {
            Ok(document) => {
                let problems = check(&document).into_iter();
                problems.map(|p| (p.path, p.message)).collect()
            }
            Err(error) => vec![(String::new(), error)],
        }
    }

    pub fn namespace(&self) -> &str {
        let namespace = self.document["metadata"]["namespace"].as_str();
        namespace.unwrap_or("default")
    }

    pub fn name(&self) -> &str {
        self.document["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
    }

    /// Compares the job's next times with those of its source.
    ///
    /// The job's come from the engine, the source's from the second evaluator under the source's own
    /// rules. Answers how many were compared: fewer than `count` where both end.
    ///
    /// # Errors
    /// The first time that one has and the other has not.
    pub fn prove(&self, after: i64, count: usize) -> Result<usize, String> {
        let document = self.read()?;
        let timing = document.timing(JobUid(uuid::Uuid::nil()), &Calendars::default());
        let timing = timing.map_err(|problems| format!("{problems:?}"))?;
        let instant = |second| jiff::Timestamp::from_second(second).map_err(|e| e.to_string());
        let mut at = instant(after)?;
        let ours = std::iter::from_fn(|| {
            at = timing.next(at)?;
            Some(at.as_second())
        });
        let ours: Vec<i64> = ours.take_while(|at| *at <= LAST).take(count).collect();
        let theirs = sichen_audit::ledger::union(&self.source, after, LAST);
        let theirs: Vec<i64> = theirs.take(count).collect();
        if ours == theirs {
            return Ok(ours.len());
        }
        let at = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        let shown = |times: &[i64]| match times.get(at).map(|at| instant(*at)) {
            Some(Ok(at)) => at.to_string(),
            _ => "none".to_owned(),
        };
        Err(format!(
            "time {} of the source is {}, of the imported job {}",
            at + 1,
            shown(&theirs),
            shown(&ours)
        ))
    }
}

/// A document's frame around `metadata` and `spec`.
pub fn document(metadata: Map<String, Value>, spec: Map<String, Value>) -> Value {
    json!({ "apiVersion": "sichen/v1", "kind": "Job", "metadata": metadata, "spec": spec })
}

/// A name made of free text: `a-z`, `0-9` and `-`, at most `longest` bytes; `job` if nothing is
/// left.
pub fn slug(text: &str, longest: usize) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(longest);
    let name = name.trim_matches('-');
    if name.is_empty() {
        "job".to_owned()
    } else {
        name.to_owned()
    }
}
