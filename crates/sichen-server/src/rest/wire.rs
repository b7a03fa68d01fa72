//! What requests and answers of the REST API look like.
//!
//! # Invariants
//! - These are promises to other programs: fields are added, never taken away or given another
//!   meaning. Readers pass over fields that they do not know; requests with unknown fields are
//!   refused.
//! - Instants are RFC 3339 with an offset: that of the job's zone for planned instants and periods,
//!   `Z` for everything else. Lengths of time are seconds, with that in the name.
//! - A page's `next` is opaque: it goes back as `after`; absent, there is no more now.
//!
//! # Not here
//! How they come from rows (`convert`), the job document (`sichen_core::document`).

mod alerts;
mod backfills;
mod calendars;
mod capacities;
mod clock;
mod cluster;
mod dead_letters;
mod forecast;
mod history;
mod import;
mod jobs;
mod namespaces;
mod overview;
mod restore;
mod runs;
mod shards;
mod tokens;
mod users;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use alerts::{Alert, AlertSubject, Alerts, WaitingNotices};
pub use backfills::{
    Backfill, BackfillCheck, BackfillCheckPage, BackfillChecks, BackfillInstant, BackfillInstants,
    BackfillPage, BackfillPreview, BackfillRuns, BackfillVerify, StartBackfill,
};
pub use calendars::{
    AppliedCalendar, Calendar, CalendarChange, CalendarComparison, CalendarPage, CalendarUser,
    DeletedCalendar, LeftJob, MovedJob,
};
pub use capacities::{
    AppliedCapacity, Capacity, CapacityHolder, CapacityPage, CapacityWaiter, DeletedCapacity,
    ResizeCapacity,
};
pub use clock::Clock;
pub use cluster::{
    Disk, Duty, Health, HeldShard, HeldShards, Members, Node, OldTransaction, ServerStatus, Worker,
    Workers,
};
pub use dead_letters::{DeadLetter, DeadLetterPage, DiscardRun};
pub use forecast::{Forecast, ForecastPart, JobForecast, LimitForecast, Overbooked};
pub use history::{ChangeMade, ChangePage, Event, EventPage};
pub use import::{ImportRemark, Imported, ImportedJob};
pub use jobs::{
    Applied, AppliedDocument, Change, CronInWords, Decision, DecisionPage, DeletedJob, Job,
    JobPage, JobRevision, NextInstants, ValidDocument, Validated,
};
pub use namespaces::{Namespace, NamespacePage, SetNamespace};
pub use overview::{JobCounts, LoadPart, Overview, RunCounts, SkippedInstants};
pub use restore::{DecideRestore, DecidedRestore, LostReport, Restore, RestoredJob};
pub use runs::{
    Nominal, Period, Preview, RetryRun, Run, RunPage, ShardCounts, StartRun, StartRuns,
    StartedOrProblem, StartedRun, StartedRuns, Stop,
};
pub use shards::{
    Attempt, Attempts, Checkpoint, Explanation, Failure, Part, Progress, Shard, ShardPage, Why,
};

pub use tokens::{MadeToken, Me, NewToken, RoleIn, Token, Tokens};
pub use users::{LogIn, Logins, NewPassword, NewRoles, NewUser, User, Users};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was not carried out (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:sichen:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to what, and what to do.
    pub detail: String,
    /// `SCnnnn`; docs/errors.md has a section for each.
    pub code: String,
    /// Every single problem of a document or request; empty if there is only one thing to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemAt>,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemAt {
    /// Line of the text, from 1, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in characters, from 1, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// Where in the document, such as `spec.retry.maxAttempts`; empty for the text as a whole.
    #[serde(default)]
    pub path: String,
    /// What is wrong and what to write instead, with its code.
    pub message: String,
}
