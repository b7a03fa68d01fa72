//! A backfill's state, and what it says that it started (I9, I45).

use std::collections::BTreeMap;

use sichen_core::backfill::check::CheckState;
use sichen_core::event::{Event, Kind};

use super::{Broken, Trail, check_move};
use crate::data::{CheckAt, Fields};
use crate::verdict::{Invariant, state_word};

#[derive(Clone, Debug, Default)]
pub(crate) struct Backfill {
    pub trail: Trail,
    pub state: &'static str,
    /// Runs that its steps wrote and retried, and instants that they left.
    pub written: u64,
    pub reopened: u64,
    pub left: u64,
    /// Checks that were moved, by run and round, and where to.
    pub checks: BTreeMap<(u64, u32), CheckState>,
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
        for check in &data.checks {
            self.check(check)?;
        }
        self.state = state_word(&e.to);
        self.trail.push(e);
        Ok(())
    }

    /// A check is over once, and goes no way back.
    fn check(&mut self, told: &CheckAt) -> Result<(), Broken> {
        let (run, round, word) = (told.run, told.round, &told.state);
        let broken = |message: String| Err(Broken(Invariant::I9, message));
        let Some(to) = CheckState::parse(word) else {
            return broken(format!("{word:?} is no state of a check"));
        };
        let from = self.checks.insert((run, round), to);
        match from {
            None if to != CheckState::Due => Ok(()),
            Some(CheckState::Open) if to.is_over() => Ok(()),
            _ => broken(format!(
                "the check of round {round} of run {run} went from {} to {to}",
                from.map_or("due", CheckState::word)
            )),
        }
    }
}
