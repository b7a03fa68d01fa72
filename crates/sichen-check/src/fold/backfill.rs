//! A backfill's state, and what it says that it started (I9, I45).

use sichen_core::event::{Event, Kind};

use super::{Broken, Trail, check_move};
use crate::data::Fields;
use crate::verdict::state_word;

#[derive(Clone, Debug, Default)]
pub(crate) struct Backfill {
    pub trail: Trail,
    pub state: &'static str,
    /// Runs that its steps wrote and retried, and instants that they left.
    pub written: u64,
    pub reopened: u64,
    pub left: u64,
}

impl Backfill {
    pub fn adopt(e: &Event) -> Self {
        let mut backfill = Self {
            state: state_word(&e.to),
            ..Self::default()
        };
        backfill.trail.partial = true;
        backfill.trail.push(e);
        backfill
    }

    pub fn apply(&mut self, e: &Event, data: &Fields) -> Result<(), Broken> {
        self.trail.check(e)?;
        check_move("backfill", self.state, e)?;
        if matches!(e.kind, Kind::BackfillAdvanced | Kind::BackfillFinished) {
            self.written += data.written.len() as u64;
            self.reopened += data.reopened.len() as u64;
            self.left += data.left.unwrap_or(0);
        }
        self.state = state_word(&e.to);
        self.trail.push(e);
        Ok(())
    }
}
