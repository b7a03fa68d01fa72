//! Restores: a store that went back, and what people decide about it.

use sichen_core::port::{Answer, Op, RestoreStore};
use sichen_core::restore::{Decided, Restore, Verdict};

use super::super::{SqliteStore, restored};

impl RestoreStore for SqliteStore {
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        self.read(restored::get)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        self.write(op, move |tx| restored::begin(tx, known))
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        self.write(op, move |tx| restored::decide(tx, decided))
    }
}
