//! The store's time.

use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Answer, Fence, Op, Shorter, TimeStore, Usage};
use sichen_core::timekeeping::Told;

use super::super::{SqliteStore, clock};

impl TimeStore for SqliteStore {
    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async { Ok(self.engine.clock().await?.now) })
    }
    fn usage(&self) -> Usage {
        self.engine.usage()
    }
    fn clock(&self) -> Answer<'_, Told> {
        self.engine.clock()
    }
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>> {
        self.write(op, clock::accept)
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        self.write(op, move |tx| clock::shorten(tx, &fence, &leases))
    }
}
