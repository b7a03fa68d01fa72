//! What has been: the log, listings of shards, numbers, and what is removed.

use jiff::Timestamp;
use sichen_core::event::Event;
use sichen_core::ids::{OpId, RunId};
use sichen_core::model::{Dump, Run, Shard};
use sichen_core::port::{
    Answer, EventFilter, Fence, HistoryStore, Op, Overview, Page, Removed, Span,
};

use super::super::{SqliteStore, history, overview, row, shards, sql};

impl HistoryStore for SqliteStore {
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        self.read(move |r| r.exists(sql::FIND_OP, [row::blob(op.0)]))
    }
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| shards::list(r, run, &page))
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        self.read(move |r| history::list_events(r, filter, &page))
    }
    fn list_ended_runs(
        &self,
        until: Timestamp,
        page: Page<(Timestamp, RunId)>,
    ) -> Answer<'_, Vec<Run>> {
        self.read(move |r| history::list_ended(r, until, &page))
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        self.read(overview::last_event)
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        self.read(move |r| overview::get(r, now, span))
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Removed> {
        self.write(op, move |tx| history::remove(tx, &fence, before, limit))
    }
    fn dump(&self) -> Answer<'_, Dump> {
        self.read(history::dump)
    }
}
