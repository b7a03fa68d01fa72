//! Reading documents of jobs, calendars and capacities: YAML or JSON, one or more in a text, every problem with its place.
//!
//! # Invariants
//! - What can be told at once is told at once: all fields that do not fit, and all values that break
//!   a rule, but for rules about a field that did not fit. Where a field that must be there does not
//!   fit, the rules are asked when it does. A text that is no YAML ends at its first fault.
//! - A text is bounded before it is read ([`MAX_TEXT_BYTES`]) and while it is read (depth, nodes,
//!   what aliases stand for).
//! - No guess: an unknown field is refused, a number is no text, `<<` is not read.
//!
//! # Not here
//! What a document means (`sichen_core::document`).

mod foreign;
mod shape;
mod tree;
mod unreadable;

use std::collections::BTreeMap;

use serde::Deserialize;
use sichen_core::document::{
    self, CalendarDocument, CapacityDocument, Document, Metadata, NUL, check,
};

pub use foreign::{Foreign, read_foreign};
use tree::{Node, Place};

/// The largest text, in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A document without problems.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<T = Document> {
    /// The document.
    pub document: T,
    /// The line at which it begins, from 1.
    pub line: u64,
}

/// The documents of a text, by kind, each kind in the order of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Calendars: to be applied before the jobs that use them.
    pub calendars: Vec<Read<CalendarDocument>>,
    /// Capacities: likewise.
    pub capacities: Vec<Read<CapacityDocument>>,
    /// Jobs.
    pub jobs: Vec<Read>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1, if it is known.
    pub line: Option<u64>,
    /// Column in characters, from 1, if it is known.
    pub column: Option<u64>,
    /// Where in the document, such as `spec.retry.maxAttempts`; empty for the text as a whole.
    pub path: String,
    /// What is wrong and what to write instead, with its code.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl Problem {
    fn at(place: Place, path: String, message: String) -> Self {
        Self {
            line: Some(place.line),
            column: Some(place.column),
            path,
            message,
        }
    }

    fn whole(message: String) -> Self {
        Self {
            line: None,
            column: None,
            path: String::new(),
            message,
        }
    }
}

/// Reads bytes that should be UTF-8.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(bytes: &[u8]) -> Result<Documents, Vec<Problem>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read_all(text),
        Err(error) => {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            let place = end_of(&String::from_utf8_lossy(good));
            let byte = bad.first().copied().unwrap_or_default();
            let message =
                format!("SC1030: the byte 0x{byte:02x} is not UTF-8; save the text as UTF-8");
            Err(vec![Problem::at(place, String::new(), message)])
        }
    }
}

/// Reads all documents of `text`, which are jobs.
///
/// # Errors
/// As [`read_all`]; a document of another kind.
pub fn read(text: &str) -> Result<Vec<Read>, Vec<Problem>> {
    let all = read_all(text)?;
    let calendars = all.calendars.iter().map(|read| (read.line, "Calendar"));
    let capacities = all.capacities.iter().map(|read| (read.line, "Capacity"));
    let others: Vec<(u64, &str)> = calendars.chain(capacities).collect();
    if others.is_empty() {
        return Ok(all.jobs);
    }
    let problems = others.into_iter().map(|(line, kind)| Problem {
        line: Some(line),
        column: None,
        path: "kind".to_owned(),
        message: format!("SC1005: is {kind:?}; only jobs are taken here"),
    });
    Err(problems.collect())
}

/// Reads all documents of `text`.
///
/// # Errors
/// Every problem of every document, in the order of their places.
pub fn read_all(text: &str) -> Result<Documents, Vec<Problem>> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(vec![Problem::whole(format!(
            "SC1035: the text has {} bytes, the limit is {MAX_TEXT_BYTES}; split it",
            text.len()
        ))]);
    }
    if let Some(at) = text.find('\0') {
        let place = end_of(&text[..at]);
        return Err(vec![Problem::at(place, String::new(), NUL.to_owned())]);
    }
    let trees = tree::parse(text).map_err(|error| vec![unreadable::problem(text, &error)])?;
    let mut problems = Vec::new();
    let mut seen = BTreeMap::new();
    let mut all = Documents::default();
    for mut tree in trees {
        let place = tree.place;
        let read = if tree.is("Capacity") {
            one(&mut tree, CapacityDocument::check).map(|document| {
                let name = Metadata {
                    name: document.metadata.name.clone(),
                    ..Metadata::default()
                };
                let line = place.line;
                all.capacities.push(Read { document, line });
                ("capacity", name)
            })
        } else if tree.is("Calendar") {
            one(&mut tree, CalendarDocument::check).map(|document| {
                let name = ("calendar", document.metadata.clone());
                let line = place.line;
                all.calendars.push(Read { document, line });
                name
            })
        } else {
            one(&mut tree, check).map(|document: Document| {
                let name = ("job", document.metadata.clone());
                let line = place.line;
                all.jobs.push(Read { document, line });
                name
            })
        };
        match read {
            Ok((kind, name)) => {
                let key = (kind, name.namespace, name.name);
                problems.extend(twice(&seen, &key, place));
                seen.entry(key).or_insert(place);
            }
            Err(more) => problems.extend(more),
        }
    }
    if seen.is_empty() && problems.is_empty() {
        let message = "SC1038: there is no document in this text".to_owned();
        problems.push(Problem::whole(message));
    }
    if problems.is_empty() {
        return Ok(all);
    }
    problems.sort_by_key(|p| (p.line, p.column));
    Err(problems)
}

/// Line and column of the value at `path` (or of the nearest one around it) in that document of
/// `text` which begins at `line`: for problems that only a store knows.
#[must_use]
pub fn place_of(text: &str, line: u64, path: &str) -> Option<(u64, u64)> {
    let trees = tree::parse(text).ok()?;
    let tree = trees.iter().find(|tree| tree.place.line == line)?;
    let place = tree.place_of(&tree::steps(path));
    Some((place.line, place.column))
}

/// One document, or all that is wrong with it.
fn one<T: for<'a> Deserialize<'a>>(
    tree: &mut Node,
    check: impl Fn(&T) -> Vec<document::Problem>,
) -> Result<T, Vec<Problem>> {
    let mut problems = Vec::new();
    tree.each_repeated(&mut Vec::new(), &mut |path, place, first| {
        let message = format!(
            "SC1037: this field is there twice, first in line {}; keep one",
            first.line
        );
        problems.push(Problem::at(place, tree::text(path), message));
    });
    tree.each_text(&mut Vec::new(), &mut |path, place, text| {
        if text.contains('\0') {
            problems.push(Problem::at(place, tree::text(path), NUL.to_owned()));
        }
    });
    problems.truncate(shape::MAX_FAULTS);
    if !problems.is_empty() {
        return Err(problems);
    }
    let (document, misfits) = shape::document::<T>(tree);
    let Some(document) = document else {
        return Err(misfits);
    };
    let broken = check(&document).into_iter();
    let broken = broken.filter(|rule| !misfits.iter().any(|misfit| hides(misfit, &rule.path)));
    let broken = broken.map(|problem| {
        let place = tree.place_of(&tree::steps(&problem.path));
        Problem::at(place, problem.path, problem.message)
    });
    let problems: Vec<Problem> = broken.collect();
    if problems.is_empty() && misfits.is_empty() {
        Ok(document)
    } else {
        Err(misfits.into_iter().chain(problems).collect())
    }
}

/// Fields of a job whose rules look at each other.
const TOGETHER: &[&str] = &[
    "spec.schedules",
    "spec.overlap",
    "spec.maxActiveRuns",
    "spec.catchUp",
    "spec.onResume",
    "spec.jitter",
];

/// Whether a rule about `path` may be broken only because `misfit` was passed over. An unknown field
/// never counts.
fn hides(misfit: &Problem, path: &str) -> bool {
    if misfit.message.starts_with("SC1031") {
        return false;
    }
    // Where an item of a list was passed over, those behind it have other numbers.
    let mut passed_over = tree::steps(&misfit.path);
    if misfit.message.starts_with("SC1032") {
        passed_over.pop();
    }
    if matches!(passed_over.last(), Some(tree::Step::Index(_))) {
        passed_over.pop();
        if path.starts_with(&tree::text(&passed_over)) {
            return true;
        }
    }
    // A schedule is its own whole, and so is a field of the spec with all that is inside.
    let part = |path: &str| {
        let steps = tree::steps(path);
        let indexed = matches!(steps.get(2), Some(tree::Step::Index(_)));
        tree::text(&steps[..steps.len().min(if indexed { 3 } else { 2 })])
    };
    let (of_misfit, of_rule) = (part(&misfit.path), part(path));
    let among = |part: &str| TOGETHER.iter().any(|field| part.starts_with(field));
    let same = of_misfit.starts_with(&of_rule) || of_rule.starts_with(&of_misfit);
    same || among(&of_misfit) && TOGETHER.contains(&of_rule.as_str())
}

/// The document's kind, namespace and name.
type Key = (&'static str, String, String);

fn twice(seen: &BTreeMap<Key, Place>, key: &Key, place: Place) -> Option<Problem> {
    let Place { line, .. } = seen.get(key)?;
    let (kind, _, name) = key;
    let message = format!(
        "SC1039: the {kind} {name:?} is in this text twice, first in line {line}; keep one"
    );
    Some(Problem::at(place, "metadata.name".to_owned(), message))
}

/// The place behind the last character of `text`.
fn end_of(text: &str) -> Place {
    let last = text.rsplit('\n').next().unwrap_or("");
    Place {
        line: text.matches('\n').count() as u64 + 1,
        column: last.chars().count() as u64 + 1,
    }
}

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;
