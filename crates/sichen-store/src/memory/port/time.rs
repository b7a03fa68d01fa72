//! The store's time.

use jiff::{SignedDuration, Timestamp};
use sichen_core::port::{Answer, Fence, Op, Shorter, TimeStore};
use sichen_core::timekeeping::Told;

use super::super::{MemoryStore, clock};

impl TimeStore for MemoryStore {
    fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|_, now| now)
    }
    fn clock(&self) -> Answer<'_, Told> {
        Box::pin(async move { Ok(self.keeper.read()) })
    }
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>> {
        self.write(op, |tx| clock::accept(tx, &self.keeper))
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        let behind = clock::is_behind(&self.keeper.read());
        self.write(op, move |tx| clock::shorten(tx, &fence, &leases, behind))
    }
}
