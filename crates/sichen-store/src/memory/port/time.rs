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
        Box::pin(async move {
            let (mut state, now) = self.lock();
            state.ops.insert(op.id);
            let told = self.keeper.read();
            if !told.held {
                return Ok(None);
            }
            let step = told.wall.duration_since(now);
            clock::shift(&mut state, now, step);
            self.keeper.accept(self.keeper.kept().accepts + 1);
            Ok(Some(step))
        })
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        let behind = clock::is_behind(&self.keeper.read());
        self.write(op, move |tx| clock::shorten(tx, &fence, &leases, behind))
    }
}
