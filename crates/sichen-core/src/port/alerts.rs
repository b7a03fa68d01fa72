//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Answer, Fence, Op};
use crate::alert::notice::{Notice, Tried};
use crate::alert::{Alert, Key};
use crate::model::Run;

/// What a pass over the alerts came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveAlerts {
    /// Alerts as they are now.
    pub keep: Vec<Alert>,
    /// Alerts that are no more.
    pub forget: Vec<Key>,
    /// What is to be sent of it. One whose id is there already is passed over.
    pub notices: Vec<Notice>,
}

/// Alerts and notices. A part of [`Store`](super::Store). What happens here writes no event: it follows
/// from what has one.
pub trait AlertStore: Send + Sync + 'static {
    /// Every alert, by name.
    fn list_alerts(&self) -> Answer<'_, Vec<Alert>>;
    /// Writes how the alerts stand and what is to be told of it. Harmless to repeat.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error) under an old term: nothing was written.
    fn save_alerts(&self, op: Op, fence: Fence, save: SaveAlerts) -> Answer<'_, ()>;
    /// Notices that are due by `by`, the longest due first; at most `limit` of each receiver, so that what
    /// waits for one hides none of another.
    fn list_notices(&self, by: Timestamp, limit: u32) -> Answer<'_, Vec<Notice>>;
    /// How many notices wait for each receiver, by its name.
    fn count_notices(&self) -> Answer<'_, Vec<(String, u32)>>;
    /// What became of notices that were tried: each either is no more, or has one try more.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error) under an old term: nothing was written.
    fn end_notices(&self, op: Op, fence: Fence, tried: Vec<(Uuid, Tried)>) -> Answer<'_, ()>;
    /// Runs that ended since `since` without success, the last first; at most `limit`. Without runs of
    /// backfills and what was cancelled for another cause than its latest start.
    fn list_unsuccessful_runs(&self, since: Timestamp, limit: u32) -> Answer<'_, Vec<Run>>;
}
