//! What has been: the log, listings of shards, numbers, and what is removed.

use jiff::Timestamp;
use sichen_core::event::Event;
use sichen_core::ids::{OpId, RunId};
use sichen_core::model::{Dump, Run, Shard};
use sichen_core::port::{
    Answer, EventFilter, Fence, HistoryStore, Op, Overview, Page, Removed, Span,
};

use super::super::{PostgresStore, history, overview, shards, sql};

impl HistoryStore for PostgresStore {
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        glance!(self, [], |read| read.exists(sql::FIND_OP, [op.0]).await)
    }
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        read!(self, [page], |read| shards::list(read, run, &page).await)
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        read!(self, [page], |read| history::list_events(
            read, filter, &page
        )
        .await)
    }
    fn list_ended_runs(
        &self,
        until: Timestamp,
        page: Page<(Timestamp, RunId)>,
    ) -> Answer<'_, Vec<Run>> {
        glance!(self, [page], |read| {
            history::list_ended(read, until, &page).await
        })
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        glance!(self, [], |read| overview::last_event(read).await)
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        read!(self, [], |read| overview::get(read, now, span).await)
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, Removed> {
        write!(self, Some(op), [fence], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            tx.tell_time().await?;
            history::remove(tx, &fence, before, limit).await
        })
    }
    fn dump(&self) -> Answer<'_, Dump> {
        read!(self, [], |read| history::dump(read).await)
    }
}
