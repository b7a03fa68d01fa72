//! Restores: a store that went back, and what people decide about it.

use sichen_core::port::{Answer, Op, RestoreStore};
use sichen_core::restore::{Decided, Restore, Verdict};

use super::super::{MemoryStore, restore};

impl RestoreStore for MemoryStore {
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        self.read(|s, _| s.restore)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        self.write(op, move |tx| restore::begin(tx, known))
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        self.write(op, move |tx| restore::decide(tx, decided))
    }
}
