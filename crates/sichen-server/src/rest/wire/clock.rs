//! The store's clock on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The store's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Clock {
    /// The time by which everything is judged.
    pub now: String,
    /// What the clock says: the database's, or this machine's for a store in a directory.
    pub reading: String,
    /// By how many seconds the clock is ahead of the time; below 0 if it is behind, and then time
    /// stands still until it has caught up.
    pub ahead_seconds: i64,
    /// Whether the clock stepped ahead and is not believed: nothing fires until it is accepted.
    pub held: bool,
    /// The step that was accepted just now, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_seconds: Option<i64>,
}

impl Clock {
    /// Whether the clock stepped back, and time waits for it.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let limit = sichen_core::timekeeping::MAX_BEHIND.as_secs();
        !self.held && self.ahead_seconds <= -limit
    }
}
