//! What must hold in a job document beyond its shape; all problems at once.
//!
//! # Not here
//! Lines and columns: the reader of the file finds them by `path`.

use jiff::{SignedDuration, Timestamp};

use super::{
    API_VERSION, BoundsSpec, Document, Duration, ItemsSpec, KeySpec, KeysSpec, Metadata, RangeSpec,
    RunSpec, ShardsSpec, SizeSpec, Spec,
};
use crate::layout::{self, Cut, Layout};
use crate::name::{JobName, Name};
use crate::timeouts;

/// One thing that is wrong, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, such as `spec.retry.maxAttempts`.
    pub path: String,
    /// What is wrong and what to write instead, with its code.
    pub message: String,
}

pub(super) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Problem {
            path: path.to_owned(),
            message: message.into(),
        });
    }

    pub(super) fn name(&mut self, path: &str, text: &str) {
        if let Err(error) = Name::new(text) {
            self.add(path, format!("SC1001: the name {text:?} {error}"));
        }
    }

    pub(super) fn within(&mut self, path: &str, value: i64, low: i64, high: i64) {
        if value < low || value > high {
            self.add(path, format!("SC1002: {value} is outside {low} to {high}"));
        }
    }

    fn positive(&mut self, path: &str, length: Option<Duration>) {
        if length.is_some_and(|l| l.0 < SignedDuration::from_millis(1)) {
            self.add(
                path,
                "SC1003: must be at least 1ms; leave it out for no limit",
            );
        }
    }
}

/// Everything that is wrong with the document beyond its shape; empty if nothing is.
#[must_use]
pub fn check(doc: &Document) -> Vec<Problem> {
    let mut p = Problems(Vec::new());
    let kind = (doc.kind != "Job").then_some(doc.kind.as_str());
    check_head(&doc.api_version, kind, &doc.metadata, &mut p);
    check_spec(&doc.metadata.namespace, &doc.spec, &mut p);
    p.0
}

/// What documents of every kind have.
pub(super) fn check_head(
    api_version: &str,
    wrong_kind: Option<&str>,
    metadata: &Metadata,
    p: &mut Problems,
) {
    if api_version != API_VERSION {
        p.add(
            "apiVersion",
            format!("SC1004: is {api_version:?}; write `{API_VERSION}`"),
        );
    }
    if let Some(kind) = wrong_kind {
        let message = format!("SC1005: is {kind:?}; write `Job`, `Calendar` or `Capacity`");
        p.add("kind", message);
    }
    p.name("metadata.name", &metadata.name);
    p.name("metadata.namespace", &metadata.namespace);
    if metadata.title.as_ref().is_some_and(|t| t.len() > 1024) {
        p.add("metadata.title", "SC1006: is longer than 1,024 bytes");
    }
}

fn check_spec(namespace: &str, spec: &Spec, p: &mut Problems) {
    p.0.extend(super::timing::check(namespace, spec));
    p.name("spec.pool", &spec.pool);
    match &spec.run {
        RunSpec::Handler(name) => p.name("spec.run.handler", name),
        RunSpec::Process(process) => {
            if process.argv.first().is_none_or(String::is_empty) {
                p.add(
                    "spec.run.process.argv",
                    "SC1007: is empty; give the program first",
                );
            }
            let bad = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
            if let Some(name) = process.env.keys().find(bad) {
                p.add(
                    "spec.run.process.env",
                    format!("SC1028: {name:?} is no name of a variable; leave `=` out"),
                );
            }
        }
    }
    if let Some(n) = spec.parallelism {
        p.within(
            "spec.parallelism",
            i64::from(n),
            1,
            i64::from(layout::MAX_SHARDS),
        );
    }
    if let Some(n) = spec.max_running_shards {
        let most = i64::from(layout::MAX_SHARDS);
        p.within("spec.maxRunningShards", i64::from(n), 1, most);
    }
    super::capacity::check_uses(&spec.uses, p);
    super::capacity::check_rate(spec.rate.as_deref(), p);
    super::placement::check(spec, p);
    p.within("spec.priority", i64::from(spec.priority), -1000, 1000);
    super::preemption::check(spec, p);
    super::retry::check(&spec.retry, p);
    p.positive("spec.timeouts.attempt", spec.timeouts.attempt);
    p.positive("spec.timeouts.run", spec.timeouts.run);
    p.positive(
        "spec.timeouts.activeDeadline",
        spec.timeouts.active_deadline,
    );
    p.positive("spec.timeouts.stall", spec.timeouts.stall);
    let bounds = timeouts::MIN_STOP_GRACE..=timeouts::MAX_STOP_GRACE;
    let grace = spec.timeouts.grace;
    if let Some(grace) = grace.filter(|grace| !bounds.contains(&grace.0)) {
        let message = format!("SC1002: {grace} is outside 100ms to 10m");
        p.add("spec.timeouts.grace", message);
    }
    p.0.extend(super::parameters::check(
        &spec.parameters,
        "spec.parameters",
    ));
    if let Some(shards) = &spec.shards {
        check_shards(shards, p);
    }
}

fn check_shards(shards: &ShardsSpec, p: &mut Problems) {
    match shards {
        ShardsSpec::Count(n) => {
            if let Err(error) = Layout::Count(*n).cut() {
                p.add("spec.shards.count", error.to_string());
            }
        }
        ShardsSpec::Items(ItemsSpec::Values(items)) => {
            if let Err(error) = Layout::Items(items.clone()).cut() {
                p.add("spec.shards.items.values", error.to_string());
            }
        }
        ShardsSpec::Items(ItemsSpec::Parameter(_)) => {}
        ShardsSpec::Range(range) => {
            let cut = match range_cut(range) {
                Ok(cut) => cut,
                Err(message) => return p.add("spec.shards.range", message),
            };
            match &range.bounds {
                BoundsSpec::Literal(b) => match (range.key(&b.from), range.key(&b.to)) {
                    (Ok(from), Ok(to)) => {
                        if let Err(error) = (Layout::Range { from, to, cut }).cut() {
                            p.add("spec.shards.range", error.to_string());
                        }
                    }
                    (Err(message), _) | (_, Err(message)) => {
                        p.add("spec.shards.range.bounds.literal", message);
                    }
                },
                BoundsSpec::Period if range.keys != KeysSpec::Time => {
                    p.add(
                        "spec.shards.range.bounds",
                        "SC1010: a period needs `keys: time`",
                    );
                }
                BoundsSpec::Query(q) if q.sql.trim().is_empty() => {
                    p.add("spec.shards.range.bounds.query.sql", "SC1011: is empty");
                }
                BoundsSpec::Period | BoundsSpec::Parameters(_) | BoundsSpec::Query(_) => {}
            }
        }
    }
}

/// How a range is cut.
///
/// # Errors
/// A message if neither or both of `count` and `size` are given, or the size does not fit the keys.
pub fn range_cut(range: &RangeSpec) -> Result<Cut, String> {
    let both = "SC1012: give either `count` or `size`";
    match (range.count, &range.size, range.keys) {
        (Some(n), None, _) => {
            Layout::Count(n).cut().map_err(|e| e.to_string())?;
            Ok(Cut::Count(n))
        }
        (None, Some(SizeSpec::Keys(0)), _) => Err(layout::Error::Zero.to_string()),
        (None, Some(SizeSpec::Keys(n)), KeysSpec::Integer) => Ok(Cut::Size(*n)),
        (None, Some(SizeSpec::Length(length)), KeysSpec::Time) => {
            match u64::try_from(length.0.as_micros()) {
                Ok(n) if n > 0 => Ok(Cut::Size(n)),
                _ => Err(layout::Error::Zero.to_string()),
            }
        }
        (None, Some(_), KeysSpec::Integer) => {
            Err("SC1013: integer keys need a number as size, such as 10000".to_owned())
        }
        (None, Some(_), KeysSpec::Time) => {
            Err("SC1013: time keys need a length as size, such as `1h`".to_owned())
        }
        (Some(_), Some(_), _) | (None, None, _) => Err(both.to_owned()),
    }
}

impl RangeSpec {
    /// The key as a number: itself, or the instant's microseconds.
    ///
    /// # Errors
    /// A message if the key is not of this range's kind.
    pub fn key(&self, key: &KeySpec) -> Result<i64, String> {
        match (self.keys, key) {
            (KeysSpec::Integer, KeySpec::Integer(n)) => Ok(*n),
            (KeysSpec::Time, KeySpec::Instant(text)) => {
                let at: Timestamp = text.parse().map_err(|_| {
                    format!("SC1014: {text:?} is no instant; write it like 2026-08-30T00:00:00Z")
                })?;
                Ok(at.as_microsecond())
            }
            (KeysSpec::Integer, KeySpec::Instant(text)) => Err(format!(
                "SC1014: {text:?} is no integer key; for instants write `keys: time`"
            )),
            (KeysSpec::Time, KeySpec::Integer(n)) => Err(format!(
                "SC1014: {n} is no instant; write it like 2026-08-30T00:00:00Z"
            )),
        }
    }
}

impl Document {
    /// The job's name.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn job_name(&self) -> Result<JobName, crate::name::Error> {
        JobName::new(&self.metadata.namespace, &self.metadata.name)
    }
}
