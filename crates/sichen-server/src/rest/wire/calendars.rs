//! Calendars, as the API shows them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Change;

/// What became of a calendar's document, and of the jobs that use the calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedCalendar {
    /// The calendar's namespace.
    pub namespace: String,
    /// The calendar's name.
    pub name: String,
    /// Its version now.
    pub version: u32,
    /// What was done.
    pub change: Change,
    /// Jobs that were brought to this version.
    pub jobs: Vec<MovedJob>,
    /// Jobs that were not yet, and why; a server goes on with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftJob>,
    /// Whether there are more jobs than one request brings over; a server goes on with them.
    #[serde(default)]
    pub more: bool,
}

/// A job that was brought to another version of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedJob {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// Its revision now.
    pub revision: u32,
}

/// A job that still goes by an older version of a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftJob {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A calendar in one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Calendar {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The version, from 1.
    pub version: u32,
    /// When this version was written.
    pub changed_at: String,
    /// How many dates it names as off.
    pub off: u64,
    /// How many it names as made-up working days.
    pub work: u64,
    /// The end of the last year that it says anything about; absent if it has weekends alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers_through: Option<String>,
    /// The document, where one calendar is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub document: Option<Value>,
    /// Jobs that use it, where one calendar is asked for: the first thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<CalendarUser>,
}

/// A job that uses a calendar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarUser {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// The calendar's version that its present revision goes by.
    pub version: u32,
}

/// A page of calendars.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarPage {
    /// By namespace and name.
    pub items: Vec<Calendar>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A calendar that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedCalendar {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What applying calendars would do, in the order of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarComparison {
    /// Jobs whose coming planned times would change.
    pub changes: Vec<CalendarChange>,
}

/// A job whose coming planned times would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarChange {
    /// The calendar, `name` or `namespace/name`.
    pub calendar: String,
    /// The job, likewise.
    pub job: String,
    /// Planned times that it would no longer have, the first of them.
    pub gone: Vec<String>,
    /// Planned times that it would have besides, the first of them.
    pub new: Vec<String>,
    /// Up to where it was looked.
    pub through: String,
    /// Whether there are more than are named here.
    pub more: bool,
}
