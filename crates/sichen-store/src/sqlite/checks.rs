//! The checks of backfills' runs: moved and listed.

use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict, Checks};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{BackfillId, RunId};
use sichen_core::lifecycle::told;
use sichen_core::model::{DutyKey, partition_of};
use sichen_core::port::{Fence, Page};

use super::row::{at, int, opt_at, opt_int};
use super::tx::{Happened, Read, Result, Tx};
use super::{backfills, capped, sql};

pub(super) fn step(tx: &mut Tx<'_>, fence: &Fence, step: CheckStep) -> Result<CheckVerdict> {
    let Some(backfill) = backfills::get(tx, step.id)? else {
        return Ok(CheckVerdict::Missing);
    };
    let right = fence.key == DutyKey::Trigger(partition_of(backfill.job));
    if !right || !tx.under(fence)? {
        return Ok(CheckVerdict::OldTerm);
    }
    let (mut moved, mut counts) = (Vec::new(), backfill.checks);
    for item in step.moves {
        let of = (int(item.run.0), item.round);
        let check = tx.one(sql::GET_CHECK, of, |row| row.check())?;
        let check = check.filter(|check| check.backfill == step.id);
        let Some((before, after)) = check.and_then(|check| {
            let after = check.moved(backfill.state, &item.to, tx.now)?;
            Some((check.state, after))
        }) else {
            continue;
        };
        let (found, expected) = after.counts.unzip();
        let params = rusqlite::params![
            int(item.run.0),
            item.round,
            before.word(),
            after.state.word(),
            after.by.map(|run| int(run.0)),
            opt_int(found),
            opt_int(expected),
            after.why,
            at(after.at),
        ];
        tx.must(sql::MOVE_CHECK, params)?;
        counts.moved(Some(before), after.state);
        moved.push(after);
    }
    if moved.is_empty() {
        return Ok(CheckVerdict::Moved(0));
    }
    let [due, open, agree, differ, uncounted] = more(&backfill.checks, &counts);
    let params = rusqlite::params![
        int(step.id.0),
        opt_at(step.next_at),
        due,
        open,
        agree,
        differ,
        uncounted,
    ];
    tx.must(sql::COUNT_CHECKS, params)?;
    let word = backfill.state.word();
    let happened = Happened {
        data: told::checked(&moved),
        ..Happened::new(Kind::BackfillChecked, word, word)
    };
    tx.event(&Entity::Backfill(step.id), backfill.ver + 1, &happened)?;
    Ok(CheckVerdict::Moved(
        u32::try_from(moved.len()).unwrap_or(u32::MAX),
    ))
}

/// How many more there are in each state. Runs that settle meanwhile count too, so none is set.
fn more(before: &Checks, after: &Checks) -> [i64; 5] {
    let all = |c: &Checks| [c.due, u64::from(c.open), c.agree, c.differ, c.uncounted];
    let (before, after) = (all(before), all(after));
    std::array::from_fn(|i| int(after[i]) - int(before[i]))
}

pub(super) fn list(
    read: &Read<'_>,
    backfill: BackfillId,
    state: Option<CheckState>,
    page: &Page<(RunId, u32)>,
) -> Result<Vec<Check>> {
    let (run, round) = page.after.unwrap_or_default();
    let (run, limit) = (int(run.0), capped(page));
    match state {
        None => {
            let params = (int(backfill.0), run, round, limit);
            read.all(sql::LIST_CHECKS, params, |row| row.check())
        }
        Some(state) => {
            let params = (int(backfill.0), run, round, limit, state.word());
            read.all(sql::LIST_CHECKS_BY_STATE, params, |row| row.check())
        }
    }
}
