//! When a job runs, as a user writes it.
//!
//! A schedule is one of `cron`, `every`, `at`, `after` and `continuous`, with what goes beside it. What does not go
//! together is refused by [`super::read`], not by the shape, so that the message can say why.
//!
//! # Not here
//! What it means ([`super::read`], [`crate::schedule`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::Duration;
use crate::schedule::calendar::Use;
use crate::schedule::cron::{Cron, Dialect, Fold, Gap, Language};
use crate::schedule::hash_of_key;
use crate::schedule::overlap::Overlap;

/// One schedule: exactly one of `cron`, `every`, `at`, `after`, `continuous`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// A cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// A fixed rate from a fixed grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Once, at an RFC 3339 instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// So long after the end of the job's last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Duration>,
    /// Always one run: a new one at once after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous: Option<ContinuousSpec>,
    /// The rules that `cron` is read by; by the number of its fields if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// What a fixed time does that a clock change leaves out; the dialect's habit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Gap>,
    /// What a fixed time does that a clock change repeats; the dialect's habit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// How far the grid of `every` (or `@every`) is moved from 1970-01-01T00:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Duration>,
    /// IANA zone of this schedule; the job's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The calendars whose days it keeps to; all of them have to let a day through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarUse>,
    /// The first instant that may be planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first instant that may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl ScheduleSpec {
    /// What its cron expression means, and what it does when the clock changes; `None` if it has none that
    /// can be read. `job` is the job's uid, by which an `H` is spread.
    #[must_use]
    pub fn cron_in_words(&self, job: &str, language: Language) -> Option<String> {
        let text = self.cron.as_deref()?;
        let dialect = self.dialect.unwrap_or_else(|| Dialect::of(text));
        let cron = Cron::parse(text, dialect, Some(hash_of_key(job))).ok()?;
        let (gap, fold) = dialect.default_policy();
        let cron = cron.with_gap(self.gap.unwrap_or(gap));
        Some(cron.with_fold(self.fold.unwrap_or(fold)).explain(language))
    }
}

/// A calendar and what it does to the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CalendarUse {
    /// The calendar, `name` in the job's namespace or `namespace/name`.
    pub name: String,
    /// What it does.
    #[serde(rename = "use")]
    pub usage: Use,
    /// Its version in this revision of the job. Sichen writes it: an apply takes the newest version,
    /// whatever stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// How long a job that is kept running waits after failures; `{}` for the usual waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ContinuousSpec {
    /// After the first failure; 1s if left out. Each further one in a row doubles it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_wait: Option<Duration>,
    /// The longest; 5m if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
}

/// What happens when a planned time comes while a run of the job is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverlapSpec {
    /// Both run.
    Allow,
    /// The new one is skipped and says which run blocked it.
    #[default]
    Forbid,
    /// The active ones are stopped, and the new one starts when they are gone.
    Replace,
    /// The new one waits for its turn.
    Queue(QueueSpec),
}

/// A queue of runs that wait for their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QueueSpec {
    /// How many may wait; what comes on top is skipped.
    pub limit: u32,
}

impl OverlapSpec {
    /// The policy to judge by.
    #[must_use]
    pub fn policy(self) -> Overlap {
        match self {
            OverlapSpec::Allow => Overlap::Allow,
            OverlapSpec::Forbid => Overlap::Forbid,
            OverlapSpec::Replace => Overlap::Replace,
            OverlapSpec::Queue(QueueSpec { limit }) => Overlap::Queue { limit },
        }
    }
}

/// What a run's period reaches over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PeriodSpec {
    /// From the planned instant before to this one.
    #[default]
    Elapsed,
    /// Whole days of the schedule's zone, up to the planned day, which is left out.
    CivilDay,
}

impl PeriodSpec {
    pub(in crate::document) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens to planned times that were missed while down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CatchUpSpec {
    /// Which of them run; the latest if left out.
    #[serde(default)]
    pub policy: CatchUpPolicySpec,
    /// Only those not older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_deadline: Option<Duration>,
    /// How many missed times may become runs in a minute; as fast as they can if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// What a resume does with the planned times that fell into the pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnResumeSpec {
    /// They are recorded as paused.
    #[default]
    Skip,
    /// The catch-up policy decides them, as if the server had been down.
    CatchUp,
}

impl OnResumeSpec {
    pub(in crate::document) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which missed times run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CatchUpPolicySpec {
    /// None.
    None,
    /// The latest.
    #[default]
    Latest,
    /// All, at most this many.
    All(u32),
    /// One run that stands for all of them.
    Coalesce,
}
