//! What has been: the log, listings of shards, numbers, and what is removed.

use jiff::Timestamp;
use sichen_core::event::Event;
use sichen_core::ids::{OpId, RunId};
use sichen_core::model::{Dump, Run, Shard};
use sichen_core::port::{
    Answer, EventFilter, Fence, HistoryStore, Op, Overview, Page, Removed, Span,
};

use super::super::state::Tx;
use super::super::{MemoryStore, capped, history, overview};

impl HistoryStore for MemoryStore {
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        self.read(move |s, _| s.ops.contains(&op))
    }
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        self.read(move |s, _| {
            let after = page.after.unwrap_or(i32::MIN);
            let rows = s.shards_of(run).filter(|row| row.shard.key.no.0 > after);
            rows.take(capped(&page))
                .map(|row| row.shard.clone())
                .collect()
        })
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        self.read(move |s, _| history::list_events(s, filter, &page))
    }
    fn list_ended_runs(
        &self,
        until: Timestamp,
        page: Page<(Timestamp, RunId)>,
    ) -> Answer<'_, Vec<Run>> {
        self.read(move |s, _| history::list_ended(s, until, &page))
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        self.read(|s, _| s.events.last().map_or(0, |e| e.seq))
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        self.read(move |s, _| overview::get(s, now, span))
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Removed> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            state.ops.insert(op.id);
            let mut tx = Tx {
                state: &mut state,
                now,
                op,
                author: None,
                duty: None,
            };
            history::remove(&mut tx, &fence, before, limit as usize)
        })
    }
    fn dump(&self) -> Answer<'_, Dump> {
        self.read(|s, _| history::dump(s))
    }
}
