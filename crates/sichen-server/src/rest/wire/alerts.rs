//! Alerts in answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What people are told of now, and what they were told of lately.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alerts {
    /// By name; there are at most 500 of each rule.
    pub items: Vec<Alert>,
    /// Notices that are to be sent yet, by receiver.
    pub waiting: Vec<WaitingNotices>,
}

/// Notices of one receiver.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WaitingNotices {
    /// Who is to get them.
    pub receiver: String,
    /// How many.
    pub count: u32,
}

/// One alert.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// Its name, the same from its beginning to its end.
    pub alert: String,
    /// Which rule found it.
    pub rule: String,
    /// `pending`: not told yet; `open`: told; `over`: its end was told.
    pub phase: String,
    /// Since when it is in that phase; of an open one: since when it holds.
    pub since: String,
    /// When it was told of last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told_at: Option<String>,
    /// One line for people.
    pub summary: String,
    /// Jobs or pools that it is about.
    pub subjects: Vec<AlertSubject>,
    /// Whether there are more than are named.
    pub more: bool,
}

/// A job or a pool of an alert.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AlertSubject {
    /// Its name.
    pub subject: String,
    /// Since when.
    pub since: String,
    /// Why.
    pub cause: String,
    /// Whether it still is.
    pub active: bool,
}
