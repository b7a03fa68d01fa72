//! The store's time.

use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Answer, Fence, Op, Shorter, TimeStore, Usage};
use sichen_core::timekeeping::Told;

use super::super::{PostgresStore, clock, kept};

impl TimeStore for PostgresStore {
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
        write!(self, Some(op), [], |tx| {
            tx.take_turn(kept::Turn::Clock, "").await?;
            tx.tell_time().await?;
            clock::accept(tx).await
        })
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        write!(self, Some(op), [fence, leases], |tx| {
            clock::shorten(tx, &fence, &leases).await
        })
    }
}
