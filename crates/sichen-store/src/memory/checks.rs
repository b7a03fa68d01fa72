//! The checks of backfills' runs: moved and listed.

use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, RunId};
use sichen_core::lifecycle::told;
use sichen_core::model::{DutyKey, partition_of};
use sichen_core::port::{Fence, Page};

use super::capped;
use super::state::{Happened, State, Tx};

pub(super) fn step(tx: &mut Tx<'_>, fence: &Fence, step: CheckStep) -> CheckVerdict {
    let Some(backfill) = tx.state.backfills.get(&step.id) else {
        return CheckVerdict::Missing;
    };
    let (job, state) = (backfill.job, backfill.state);
    if fence.key != DutyKey::Trigger(partition_of(job)) || !tx.under(fence) {
        return CheckVerdict::OldTerm;
    }
    let now = tx.now;
    let mut moved = Vec::new();
    for item in step.moves {
        let Some(check) = tx.state.checks.get_mut(&(item.run, item.round)) else {
            continue;
        };
        let after = check.moved(state, &item.to, now);
        let Some(after) = after.filter(|check| check.backfill == step.id) else {
            continue;
        };
        let from = std::mem::replace(check, after.clone()).state;
        if let Some(backfill) = tx.state.backfills.get_mut(&step.id) {
            backfill.checks.moved(Some(from), after.state);
        }
        moved.push(after);
    }
    if moved.is_empty() {
        return CheckVerdict::Moved(0);
    }
    let Some(backfill) = tx.state.backfills.get_mut(&step.id) else {
        return CheckVerdict::Missing;
    };
    backfill.next_check_at = step.next_at;
    backfill.ver += 1;
    let ver = backfill.ver;
    let happened = Happened {
        data: told::checked(&moved),
        ..Happened::new(Kind::BackfillChecked, state.word(), state.word())
    };
    tx.event(Entity::Backfill(step.id), ver, happened);
    CheckVerdict::Moved(u32::try_from(moved.len()).unwrap_or(u32::MAX))
}

pub(super) fn list(
    state: &State,
    backfill: BackfillId,
    which: Option<CheckState>,
    page: &Page<(RunId, u32)>,
) -> Vec<Check> {
    let after = page.after.unwrap_or_default();
    let checks = state.checks.values();
    let checks = checks.filter(|check| check.backfill == backfill);
    let checks = checks.filter(|check| (check.run, check.round) > after);
    let checks = checks.filter(|check| which.is_none_or(|which| check.state == which));
    checks.take(capped(page)).cloned().collect()
}
