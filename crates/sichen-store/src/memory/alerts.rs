//! Alerts, and the notices of them that are to be sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::run::STARTING_DEADLINE;
use sichen_core::model::{DutyKey, Run};
use sichen_core::port::{Error, Fence, SaveAlerts};
use uuid::Uuid;

use super::state::{State, Tx};
use crate::happened::old_term;

pub(super) fn save(tx: &mut Tx<'_>, fence: &Fence, save: SaveAlerts) -> Result<(), Error> {
    if fence.key != DutyKey::Alerts || !tx.under(fence) {
        return Err(old_term(fence));
    }
    for alert in save.keep {
        tx.state.alerts.insert(alert.key(), alert);
    }
    for key in save.forget {
        tx.state.alerts.remove(&key);
    }
    for notice in save.notices {
        tx.state.notices.entry(notice.id).or_insert(notice);
    }
    Ok(())
}

pub(super) fn due(state: &State, by: Timestamp, limit: u32) -> Vec<Notice> {
    let due = state.notices.values().filter(|n| n.due_at <= by);
    let mut due: Vec<Notice> = due.cloned().collect();
    due.sort_by_key(|notice| (notice.due_at, notice.id));
    let mut turns = BTreeMap::<String, u32>::new();
    due.retain(|notice| {
        let turn = turns.entry(notice.receiver.clone()).or_default();
        *turn += 1;
        *turn <= limit
    });
    due
}

pub(super) fn count(state: &State) -> Vec<(String, u32)> {
    let mut counts = BTreeMap::<&str, u32>::new();
    for notice in state.notices.values() {
        *counts.entry(&notice.receiver).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts.map(|(name, n)| (name.to_owned(), n)).collect()
}

pub(super) fn end(tx: &mut Tx<'_>, fence: &Fence, tried: Vec<(Uuid, Tried)>) -> Result<(), Error> {
    if fence.key != DutyKey::Alerts || !tx.under(fence) {
        return Err(old_term(fence));
    }
    for (id, tried) in tried {
        match tried {
            Tried::Ended => {
                tx.state.notices.remove(&id);
            }
            Tried::Again(due_at) => {
                if let Some(notice) = tx.state.notices.get_mut(&id) {
                    notice.due_at = due_at;
                    notice.tries += 1;
                }
            }
        }
    }
    Ok(())
}

pub(super) fn unsuccessful(state: &State, since: Timestamp, limit: u32) -> Vec<Run> {
    let runs = state.runs.values();
    let mut runs: Vec<&Run> = runs
        .filter(|run| run.state != RunState::Succeeded && run.backfill.is_none())
        .filter(|run| run.state != RunState::Cancelled || run.stop_detail == STARTING_DEADLINE)
        .filter(|run| run.ended_at.is_some_and(|at| at >= since))
        .collect();
    runs.sort_by_key(|run| std::cmp::Reverse((run.ended_at, run.id)));
    runs.into_iter().take(limit as usize).cloned().collect()
}
