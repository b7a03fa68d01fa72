//! Checks of backfills' runs in the streams: listed, moved on, and moved where they may not go.

use futures::executor::block_on;
use sichen_core::backfill::Backfill;
use sichen_core::backfill::check::{CheckMove, CheckState, CheckStep, CheckTo, Counted, Verify};
use sichen_core::ids::RunId;
use sichen_core::model::{Dump, DutyKey, partition_of};
use sichen_core::port::{BackfillStore, Page};

use super::{Pair, both};
use crate::bench::name;

impl Pair {
    /// Mostly wanted: a check needs a run of the lane that succeeds, which few do.
    pub(super) fn verify(&mut self) -> Option<Verify> {
        let wanted = !self.dice.once_in(4);
        wanted.then(|| Verify {
            job: name("count"),
            rate: 60,
        })
    }

    /// Looks at the checks of a backfill, and moves some.
    pub(super) fn checks(&mut self, of: &Backfill, dump: &Dump) {
        let state = CheckState::ALL[self.dice.roll(CheckState::ALL.len())];
        let page = Page {
            after: self.dice.once_in(4).then_some((RunId(40), 1)),
            limit: 1 + self.dice.roll(4) as u32,
        };
        let state = self.dice.once_in(2).then_some(state);
        drop(both!(self, list_checks(of.id, state, page)));
        let mut moves = Vec::new();
        for check in dump.checks.iter().filter(|check| check.backfill == of.id) {
            if self.dice.once_in(3) {
                continue;
            }
            let to = self.check_goes(check.state, dump);
            moves.push(CheckMove {
                run: check.run,
                round: check.round + self.dice.roll(12) as u32 / 11,
                to,
            });
        }
        let step = CheckStep {
            id: of.id,
            moves,
            next_at: self.dice.once_in(2).then(|| self.now()),
        };
        let fence = self.fence(&DutyKey::Trigger(partition_of(of.job)));
        let op = self.op();
        both!(self, move_checks(op, fence, step)).expect("answered");
        // The same again, as after an answer that was lost.
        if self.dice.once_in(4) {
            both!(self, move_checks(op, fence, step)).expect("answered");
        }
    }

    /// Mostly where a check of this state may go.
    fn check_goes(&mut self, state: CheckState, dump: &Dump) -> CheckTo {
        let open = match state {
            CheckState::Due => !self.dice.once_in(5),
            _ => self.dice.once_in(6),
        };
        if open {
            return CheckTo::Open(self.any_run(dump));
        }
        CheckTo::Over(match self.dice.roll(3) {
            0 => Counted::Both(7, 7),
            1 => Counted::Both(7, 6 + self.dice.roll(3) as u64),
            _ => Counted::Nothing("whatever it was ".repeat(1 + 60 * self.dice.roll(2))),
        })
    }
}
