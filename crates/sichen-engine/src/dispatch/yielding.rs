//! What the dispatcher tells of shards that yield, and does for those who ask for their slots.
//!
//! # Not here
//! Who is asked ([`crate::preempt`]).

use std::sync::Arc;

use sichen_core::document::Document;
use sichen_core::ids::SessionId;
use sichen_core::model::Run;
use sichen_core::name::Name;
use sichen_core::port::Granted;

use super::Dispatcher;
use crate::preempt::Yielding;

impl Dispatcher {
    /// Remembers a shard that was granted, if it yields.
    pub(super) fn note_yielding(
        &self,
        pool: &Name,
        granted: &Granted,
        session: SessionId,
        run: &Arc<Run>,
        document: Option<&Arc<Document>>,
    ) {
        let yielding = document.and_then(|d| Yielding::of(granted, session, run, d));
        if let Some(yielding) = yielding {
            let since = yielding.since;
            self.fair.yields(pool, granted.shard.key, yielding, since);
            self.wake.preempt();
        }
    }

    /// Whether shards of `pool` may be waiting.
    #[must_use]
    pub(crate) fn something_waits_in(&self, pool: &Name) -> bool {
        self.room.something_waits_in(pool)
    }

    /// The next slot of `pool` that comes free is given away after a look.
    pub(crate) fn read_first(&self, pool: &Name) {
        self.room.unread(pool);
    }
}
