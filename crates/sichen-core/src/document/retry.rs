//! The document's part about failed shards: the budget, the wait, the rules.
//!
//! # Not here
//! What follows from them ([`crate::retry`], [`crate::lifecycle::shard`]).

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Problems;
use super::{Document, Duration};
use crate::lifecycle::AttemptEnd;
use crate::retry::{self, Action, MAX_CODE_BYTES, MAX_LISTED, MAX_RULES, MAX_RUN_FAILURES, Rule};

/// When a failed shard is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RetrySpec {
    /// Started attempts in one budget, 1 to 1,000; 3 if left out.
    #[schemars(range(min = 1, max = 1000))]
    #[serde(default = "default_attempts")]
    pub max_attempts: u32,
    /// Failed attempts that all shards of a run may have together, 1 to 10,000,000; the last of them
    /// stops the run. No limit if left out.
    #[schemars(range(min = 1, max = 10_000_000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
    /// The wait between them; full jitter from 1 s to 5 min if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffSpec>,
    /// What is done about particular errors; the first that fits decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RetryRuleSpec>,
}

fn default_attempts() -> u32 {
    3
}

impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            max_attempts: default_attempts(),
            max_failures: None,
            backoff: None,
            rules: Vec::new(),
        }
    }
}

/// The wait between attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackoffSpec {
    /// Always the same.
    Fixed(Duration),
    /// Growing.
    Exponential(ExponentialSpec),
    /// Growing, and drawn evenly from 0 to the grown value.
    FullJitter(ExponentialSpec),
}

/// A growing wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ExponentialSpec {
    /// After the first attempt.
    pub base: Duration,
    /// Growth, 1 to 100; 2 if left out.
    #[schemars(range(min = 1, max = 100))]
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// Longest wait.
    pub max: Duration,
}

fn default_factor() -> f64 {
    2.0
}

/// What is done about particular errors.
///
/// It fits an attempt that any of its lists names: `exitCodes` of a process, `errors` by their
/// code, `ends` by how the attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RetryRuleSpec {
    /// Exit codes of a process, 1 to 255, single or as a range such as `"10-19"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit_codes: Vec<ExitCodesSpec>,
    /// Error codes, such as `bad-input` or `cannot-start`; `killed-by-signal-*` stands for all that
    /// begin so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// How the attempt ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndSpec>,
    /// What is done.
    pub action: ActionSpec,
    /// The wait before the next attempt, in place of `backoff`; only with `retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

/// An exit code, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ExitCodesSpec {
    /// One.
    One(u32),
    /// `10-19`, both included.
    Range(String),
}

/// How an attempt ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndSpec {
    /// By an error.
    Failed,
    /// By its attempt, stall or run timeout.
    TimedOut,
    /// With its worker: nobody knows how far it came.
    Lost,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActionSpec {
    /// Another attempt, if `maxAttempts` allows one.
    Retry,
    /// The shard fails at once.
    FailShard,
    /// The shard fails at once, and the rest of the run is stopped.
    FailRun,
    /// The shard succeeds; the error stays on record.
    Ignore,
}

impl ExitCodesSpec {
    /// The codes; `None` if they are none.
    fn range(&self) -> Option<RangeInclusive<u8>> {
        let code = |text: &str| text.trim().parse::<u8>().ok();
        let (from, to) = match self {
            ExitCodesSpec::One(n) => {
                let n = u8::try_from(*n).ok()?;
                (n, n)
            }
            ExitCodesSpec::Range(text) => match text.split_once('-') {
                Some((from, to)) => (code(from)?, code(to)?),
                None => (code(text)?, code(text)?),
            },
        };
        (from > 0 && from <= to).then_some(from..=to)
    }
}

impl RetryRuleSpec {
    fn rule(&self) -> Rule {
        let end = |end: &EndSpec| match end {
            EndSpec::Failed => AttemptEnd::Failed,
            EndSpec::TimedOut => AttemptEnd::TimedOut,
            EndSpec::Lost => AttemptEnd::Lost,
        };
        Rule {
            exits: self
                .exit_codes
                .iter()
                .filter_map(ExitCodesSpec::range)
                .collect(),
            errors: self.errors.clone(),
            ends: self.ends.iter().map(end).collect(),
            action: match self.action {
                ActionSpec::Retry => Action::Retry,
                ActionSpec::FailShard => Action::FailShard,
                ActionSpec::FailRun => Action::FailRun,
                ActionSpec::Ignore => Action::Ignore,
            },
            delay: self.delay.map(|d| d.0),
        }
    }
}

impl Document {
    /// The retry policy.
    #[must_use]
    pub fn retry_policy(&self) -> retry::Policy {
        let spec = &self.spec.retry;
        let grown = |e: &ExponentialSpec, jitter| retry::Backoff::Exponential {
            base: e.base.0,
            factor: e.factor,
            max: e.max.0,
            jitter,
        };
        let backoff = match &spec.backoff {
            None => retry::Policy::default().backoff,
            Some(BackoffSpec::Fixed(delay)) => retry::Backoff::Fixed { delay: delay.0 },
            Some(BackoffSpec::Exponential(e)) => grown(e, false),
            Some(BackoffSpec::FullJitter(e)) => grown(e, true),
        };
        retry::Policy {
            max_attempts: spec.max_attempts,
            max_failures: spec.max_failures,
            backoff,
            rules: spec.rules.iter().map(RetryRuleSpec::rule).collect(),
        }
    }
}

/// What must hold beyond the shape.
pub(super) fn check(spec: &RetrySpec, p: &mut Problems) {
    let attempts = i64::from(spec.max_attempts);
    p.within("spec.retry.maxAttempts", attempts, 1, 1000);
    if let Some(most) = spec.max_failures {
        let limit = i64::from(MAX_RUN_FAILURES);
        p.within("spec.retry.maxFailures", i64::from(most), 1, limit);
    }
    check_backoff(spec, p);
    let rules = spec.rules.len();
    if rules > MAX_RULES {
        let message = format!("SC1055: has {rules} rules, the limit is {MAX_RULES}");
        p.add("spec.retry.rules", message);
    }
    for (i, rule) in spec.rules.iter().enumerate() {
        check_rule(rule, &format!("spec.retry.rules[{i}]"), p);
    }
}

fn check_backoff(retry: &RetrySpec, p: &mut Problems) {
    match &retry.backoff {
        Some(BackoffSpec::Exponential(e) | BackoffSpec::FullJitter(e)) => {
            let kind = match &retry.backoff {
                Some(BackoffSpec::Exponential(_)) => "exponential",
                _ => "fullJitter",
            };
            let path = format!("spec.retry.backoff.{kind}");
            if !(1.0..=100.0).contains(&e.factor) {
                let message = format!("SC1002: {} is outside 1 to 100", e.factor);
                p.add(&format!("{path}.factor"), message);
            }
            if e.max < e.base {
                p.add(&format!("{path}.max"), "SC1009: is shorter than base");
            }
        }
        Some(BackoffSpec::Fixed(_)) | None => {}
    }
}

fn check_rule(rule: &RetryRuleSpec, path: &str, p: &mut Problems) {
    let listed = [
        ("exitCodes", rule.exit_codes.len()),
        ("errors", rule.errors.len()),
        ("ends", rule.ends.len()),
    ];
    if listed.iter().all(|(_, n)| *n == 0) {
        let message = "SC1050: fits nothing; give `exitCodes`, `errors` or `ends`";
        p.add(path, message);
    }
    for (field, n) in listed.into_iter().filter(|(_, n)| *n > MAX_LISTED) {
        let message = format!("SC1055: has {n} codes, the limit is {MAX_LISTED}");
        p.add(&format!("{path}.{field}"), message);
    }
    for (i, codes) in rule.exit_codes.iter().enumerate() {
        if codes.range().is_none() {
            let message = "SC1051: is no exit code; write a number of 1 to 255, or a range such as \
                           \"10-19\" (0 is success)";
            p.add(&format!("{path}.exitCodes[{i}]"), message);
        }
    }
    for (i, code) in rule.errors.iter().enumerate() {
        let stem = code.strip_suffix('*').unwrap_or(code);
        if code.is_empty() || code.len() > MAX_CODE_BYTES || stem.contains('*') {
            let message = format!(
                "SC1052: is no error code; write 1 to {MAX_CODE_BYTES} bytes, `*` at the end alone"
            );
            p.add(&format!("{path}.errors[{i}]"), message);
        }
    }
    if rule.delay.is_some() && rule.action != ActionSpec::Retry {
        let message = "SC1053: only `action: retry` waits; take it out";
        p.add(&format!("{path}.delay"), message);
    }
    if rule.action == ActionSpec::Ignore && rule.ends.contains(&EndSpec::Lost) {
        let message = "SC1054: a lost attempt can't be ignored, since nobody knows how far it came; \
                       choose `retry`, `failShard` or `failRun`";
        p.add(&format!("{path}.action"), message);
    }
}

#[cfg(test)]
mod tests;
