//! What a server is told about alerts: a file of its own.
//!
//! # Invariants
//! - Unknown keys are refused. A receiver that is named and not there is refused.
//! - Secrets are read from files that their owner alone may read, or from the environment; they are no
//!   part of the file.
//!
//! # Not here
//! What becomes of it (`sichen_core::alert`, `sichen_server::alerts`).

mod mail;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use serde::Deserialize;
use sichen_core::alert::notice::MAX_RECEIVER_BYTES;
use sichen_core::alert::{MAX_SILENCES, MAX_WATCHED, Policy, Rule, Settings, Silence};
use sichen_core::document::Duration as Length;
use sichen_core::name::{JobName, nearest};
use sichen_server::alerts::form::{Form, Language};
use sichen_server::alerts::{Heartbeat, Hook, MAX_RECEIVERS, Receiver, Way};
use sichen_server::auth;

use super::{read, refused};
use crate::failure::{Exit, Failure};
use mail::MailConfig;

/// The shortest and the longest time from one look to the next.
const EVERY: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(1), SignedDuration::from_mins(10));
/// The shortest time after which something is told again.
const REPEAT: SignedDuration = SignedDuration::from_mins(1);
/// The longest length of time anywhere in the file.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 366);
/// A secret of the environment has at least this many characters.
const MIN_SECRET_CHARS: usize = 16;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlertsConfig {
    source: String,
    every: Option<Length>,
    receivers: Vec<ReceiverConfig>,
    rules: BTreeMap<String, RuleConfig>,
    no_success: Vec<WatchConfig>,
    silences: Vec<SilenceConfig>,
    heartbeat: Option<HeartbeatConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeartbeatConfig {
    url: Option<String>,
    url_file: Option<PathBuf>,
    every: Option<Length>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiverConfig {
    name: String,
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    mail: Option<MailConfig>,
    form: Option<FormConfig>,
    #[serde(default)]
    language: LanguageConfig,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum LanguageConfig {
    #[default]
    #[serde(rename = "en")]
    English,
    #[serde(rename = "zh")]
    Chinese,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormConfig {
    #[default]
    Json,
    Slack,
    DingTalk,
    Feishu,
    WeCom,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RuleConfig {
    on: Option<bool>,
    hold: Option<Length>,
    clear: Option<Length>,
    repeat: Option<Length>,
    in_a_row: Option<u32>,
    after: Option<Length>,
    at_least: Option<u32>,
    receivers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchConfig {
    job: String,
    within: Length,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceConfig {
    rule: Option<String>,
    subject: Option<String>,
    until: Timestamp,
}

/// Reads the file and checks all that can be without its secrets.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path) -> Result<AlertsConfig, Failure> {
    let config = read::<AlertsConfig>(path)?.config;
    let problems = config.problems();
    if problems.is_empty() {
        return Ok(config);
    }
    Err(refused(&path.display().to_string(), &problems))
}

fn rule(word: &str) -> Result<Rule, String> {
    Rule::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Rule::ALL.iter().map(|rule| rule.word()).collect();
        let meant = nearest(word, &known);
        let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
        format!(
            "there is no rule `{word}`; {meant}known are `{}`",
            known.join("`, `")
        )
    })
}

fn job(text: &str) -> Result<JobName, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    JobName::new(namespace, name).map_err(|e| e.to_string())
}

fn url(text: &str) -> Option<Url> {
    let url = Url::parse(text.trim()).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

impl AlertsConfig {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let every = self.every.map_or(EVERY.0, |length| length.0);
        if every < EVERY.0 || every > EVERY.1 {
            problems.push(format!(
                "every: {} is outside {} to {}",
                Length(every),
                Length(EVERY.0),
                Length(EVERY.1)
            ));
        }
        for (what, n, most) in [
            ("receivers", self.receivers.len(), MAX_RECEIVERS),
            ("no_success", self.no_success.len(), MAX_WATCHED),
            ("silences", self.silences.len(), MAX_SILENCES),
        ] {
            if n > most {
                problems.push(format!("{what}: {n} are more than {most}"));
            }
        }
        if self.receivers.is_empty() {
            problems.push("receivers: nobody is told".to_owned());
        }
        problems.extend(self.heartbeat.iter().flat_map(HeartbeatConfig::problems));
        let mut names = BTreeSet::new();
        for receiver in &self.receivers {
            problems.extend(receiver.problems());
            if !names.insert(receiver.name.as_str()) {
                problems.push(format!("receivers: there are two `{}`", receiver.name));
            }
        }
        for (word, said) in &self.rules {
            problems.extend(rule(word).err().map(|e| format!("rules: {e}")));
            problems.extend(said.problems(word, &names));
        }
        let mut watched = BTreeSet::new();
        for watch in &self.no_success {
            match job(&watch.job) {
                Ok(name) if !watched.insert(name.clone()) => {
                    problems.push(format!("no_success: there are two `{name}`"));
                }
                Ok(_) => {}
                Err(e) => problems.push(format!("no_success: {:?}: {e}", watch.job)),
            }
            if watch.within.0 < SignedDuration::from_secs(1) || watch.within.0 > LONGEST {
                let (low, high) = (Length::from_secs(1), Length(LONGEST));
                problems.push(format!(
                    "no_success: within: {} is outside {low} to {high}",
                    watch.within
                ));
            }
        }
        for silence in &self.silences {
            let bad = silence.rule.as_deref().and_then(|word| rule(word).err());
            problems.extend(bad.map(|e| format!("silences: {e}")));
        }
        problems
    }

    /// What is looked for.
    pub fn settings(&self) -> Settings {
        let mut rules = BTreeMap::new();
        for (word, said) in &self.rules {
            if let Ok(rule) = rule(word) {
                rules.insert(rule, said.policy(rule));
            }
        }
        let watched = self.no_success.iter();
        let watched = watched.filter_map(|w| Some((job(&w.job).ok()?, w.within.0)));
        let silences = self.silences.iter().map(|silence| Silence {
            rule: silence.rule.as_deref().and_then(Rule::parse),
            // As a notice names it: a job of `default` without its namespace.
            subject: silence.subject.as_ref().map(|subject| {
                let name = job(subject).ok().map(|name| name.to_string());
                name.unwrap_or_else(|| subject.clone())
            }),
            until: silence.until,
        });
        Settings {
            source: self.source.clone(),
            every: self.every.map_or(SignedDuration::from_secs(10), |l| l.0),
            rules,
            no_success: watched.collect(),
            silences: silences.collect(),
            receivers: self.receivers.iter().map(|r| r.name.clone()).collect(),
            heartbeat: self.heartbeat.as_ref().map(HeartbeatConfig::every),
        }
    }

    /// Who is told, with their secrets.
    ///
    /// # Errors
    /// A secret that is not there, or that others may read.
    pub fn receivers(&self) -> Result<Vec<Receiver>, Failure> {
        self.receivers.iter().map(ReceiverConfig::open).collect()
    }

    /// Who is called while alerts work.
    ///
    /// # Errors
    /// An address that is not there, or that others may read.
    pub fn heartbeat(&self) -> Result<Option<Heartbeat>, Failure> {
        self.heartbeat
            .as_ref()
            .map(HeartbeatConfig::open)
            .transpose()
    }
}

impl RuleConfig {
    fn problems(&self, word: &str, receivers: &BTreeSet<&str>) -> Vec<String> {
        let mut problems = Vec::new();
        let lengths = [
            ("hold", self.hold, SignedDuration::ZERO),
            ("clear", self.clear, SignedDuration::ZERO),
            ("repeat", self.repeat, REPEAT),
            ("after", self.after, SignedDuration::ZERO),
        ];
        for (key, length, low) in lengths {
            let Some(Length(length)) = length else {
                continue;
            };
            if length < low || length > LONGEST {
                problems.push(format!(
                    "rules.{word}.{key}: {} is outside {} to {}",
                    Length(length),
                    Length(low),
                    Length(LONGEST)
                ));
            }
        }
        if self.in_a_row.is_some_and(|n| !(1..=20).contains(&n)) {
            problems.push(format!("rules.{word}.in_a_row: outside 1 to 20"));
        }
        let rule = Rule::parse(word);
        let counts_in_a_row = rule.is_none_or(|r| matches!(r, Rule::Failures | Rule::Partial));
        if self.in_a_row.is_some() && !counts_in_a_row {
            let say = "only `failures` and `partial` have it";
            problems.push(format!("rules.{word}.in_a_row: {say}"));
        }
        if self.after.is_some() && rule.is_some_and(|rule| rule.after().is_none()) {
            problems.push(format!(
                "rules.{word}.after: this rule has none; it may have `hold`"
            ));
        }
        if self.at_least.is_some() && rule.is_some_and(|rule| rule.at_least().is_none()) {
            problems.push(format!("rules.{word}.at_least: this rule does not count"));
        }
        if self.at_least.is_some_and(|n| !(1..=10_000).contains(&n)) {
            problems.push(format!("rules.{word}.at_least: outside 1 to 10,000"));
        }
        let unknown = self
            .receivers
            .iter()
            .filter(|r| !receivers.contains(r.as_str()));
        problems.extend(unknown.map(|r| format!("rules.{word}.receivers: there is no `{r}`")));
        problems
    }

    fn policy(&self, rule: Rule) -> Policy {
        let usual = Policy::usual(rule);
        let length = |said: Option<Length>, usual| said.map_or(usual, |length| length.0);
        Policy {
            on: self.on.unwrap_or(usual.on),
            hold: length(self.hold, usual.hold),
            clear: length(self.clear, usual.clear),
            repeat: length(self.repeat, usual.repeat),
            in_a_row: self.in_a_row.unwrap_or(usual.in_a_row),
            after: length(self.after, usual.after),
            at_least: self.at_least.unwrap_or(usual.at_least),
            receivers: self.receivers.clone(),
        }
    }
}

impl ReceiverConfig {
    fn problems(&self) -> Vec<String> {
        let name = &self.name;
        let mut problems = Vec::new();
        if name.is_empty() || name.len() > MAX_RECEIVER_BYTES {
            problems.push(format!(
                "receivers: a name has 1 to {MAX_RECEIVER_BYTES} bytes, {name:?} has {}",
                name.len()
            ));
        }
        let place = format!("receivers.{name}");
        match &self.mail {
            None => problems.extend(address_problem(
                &place,
                self.url.as_deref(),
                self.url_file.as_deref(),
            )),
            Some(mail) => {
                problems.extend(mail.problems(&place));
                let of_hooks = self.url.is_some() || self.url_file.is_some() || self.form.is_some();
                if of_hooks || self.secret_file.is_some() || self.secret_env.is_some() {
                    problems.push(format!(
                        "{place}: it has `mail`, and what belongs to a webhook"
                    ));
                }
            }
        }
        if self.secret_file.is_some() && self.secret_env.is_some() {
            problems.push(format!(
                "receivers.{name}: give `secret_file` or `secret_env`, not both"
            ));
        }
        problems
    }

    fn open(&self) -> Result<Receiver, Failure> {
        let name = &self.name;
        let place = format!("receiver `{name}` of alerts");
        let language = match self.language {
            LanguageConfig::English => Language::English,
            LanguageConfig::Chinese => Language::Chinese,
        };
        if let Some(mail) = &self.mail {
            let way = Way::Mail(Box::new(mail.open(&place)?));
            let name = name.clone();
            return Ok(Receiver {
                name,
                way,
                language,
            });
        }
        let bad = |why: &str| refused(&place, &[why.to_owned()]);
        let url = address_of(&place, self.url.as_deref(), self.url_file.as_deref())?;
        let secret = match (&self.secret_file, &self.secret_env) {
            (Some(path), _) => Some(private(path)?),
            (None, Some(variable)) => {
                let secret = std::env::var(variable).unwrap_or_default();
                if secret.chars().count() < MIN_SECRET_CHARS {
                    return Err(bad(&format!(
                        "secret_env: {variable} has less than {MIN_SECRET_CHARS} characters"
                    )));
                }
                Some(secret)
            }
            (None, None) => None,
        };
        let form = match self.form.unwrap_or_default() {
            FormConfig::Json => Form::Json,
            FormConfig::Slack => Form::Slack,
            FormConfig::DingTalk => Form::DingTalk,
            FormConfig::Feishu => Form::Feishu,
            FormConfig::WeCom => Form::WeCom,
        };
        Ok(Receiver {
            name: name.clone(),
            way: Way::Hook(Hook { url, secret, form }),
            language,
        })
    }
}

impl HeartbeatConfig {
    /// How often, where nothing is said.
    const USUAL: SignedDuration = SignedDuration::from_mins(1);

    fn every(&self) -> SignedDuration {
        self.every.map_or(Self::USUAL, |length| length.0)
    }

    fn problems(&self) -> Vec<String> {
        let place = "heartbeat";
        let mut problems = Vec::new();
        problems.extend(address_problem(
            place,
            self.url.as_deref(),
            self.url_file.as_deref(),
        ));
        let (low, high) = (EVERY.0, SignedDuration::from_hours(24));
        if self.every() < low || self.every() > high {
            let every = Length(self.every());
            let (low, high) = (Length(low), Length(high));
            problems.push(format!(
                "heartbeat.every: {every} is outside {low} to {high}"
            ));
        }
        problems
    }

    fn open(&self) -> Result<Heartbeat, Failure> {
        let place = "heartbeat of alerts";
        address_of(place, self.url.as_deref(), self.url_file.as_deref()).map(Heartbeat)
    }
}

/// What is wrong with an address that stands here, or in a file.
fn address_problem(place: &str, text: Option<&str>, file: Option<&Path>) -> Option<String> {
    match (text, file) {
        (Some(text), None) if url(text).is_none() => Some(format!(
            "{place}.url: it is no address; write https://HOST/PATH"
        )),
        (Some(_), None) | (None, Some(_)) => None,
        _ => Some(format!("{place}: give `url` or `url_file`")),
    }
}

fn address_of(place: &str, text: Option<&str>, file: Option<&Path>) -> Result<Url, Failure> {
    let address = match (text, file) {
        (Some(text), _) => text.to_owned(),
        (None, Some(path)) => {
            let read = auth::read_short(path);
            read.map_err(|e| Failure::new(Exit::Denied, e.to_string()))?
        }
        (None, None) => String::new(),
    };
    let none = || refused(place, &["url_file: it holds no address".to_owned()]);
    url(&address).ok_or_else(none)
}

/// A secret that its owner alone may read.
fn private(path: &Path) -> Result<String, Failure> {
    auth::read(path).map_err(|e| Failure::new(Exit::Denied, e.to_string()))
}

#[cfg(test)]
mod tests;
