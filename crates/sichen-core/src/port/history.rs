//! What has been: the log, listings of shards, numbers, and what is removed.

use jiff::Timestamp;

use super::{Answer, EventFilter, Fence, Op, Overview, Page, Removed, Span};
use crate::event::Event;
use crate::ids::{OpId, RunId};
use crate::model::{Dump, Run, Shard};

/// What has been: the log, listings of shards, numbers, and what is removed. A part of [`Store`](super::Store).
pub trait HistoryStore: Send + Sync + 'static {
    /// Whether this operation was committed.
    fn find_op(&self, op: OpId) -> Answer<'_, bool>;
    /// Shards of a run by number.
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>>;
    /// Events, oldest first.
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>>;
    /// Runs that ended by `until`, in the order of their end and then of their number.
    fn list_ended_runs(
        &self,
        until: Timestamp,
        page: Page<(Timestamp, RunId)>,
    ) -> Answer<'_, Vec<Run>>;
    /// The highest number of the log; 0 if it is empty.
    fn get_last_event(&self) -> Answer<'_, u64>;
    /// How things stand at `now`, in numbers of one moment.
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview>;
    /// Removes closed runs that ended before `before`, with their shards and events; at most
    /// `limit`. Leaves a decision `removed` for each planned one, so that its instant stays decided.
    /// Forgets operations that are older than `before`, and idempotency keys older than
    /// [`KEPT`](crate::keys::KEPT), as many as one transaction takes.
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Removed>;
    /// Everything, for tests and checks on small stores.
    fn dump(&self) -> Answer<'_, Dump>;
}
