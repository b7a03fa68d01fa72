//! A clock's step that was accepted, and leases while it is behind.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::Entity;
use sichen_core::port::{Fence, Holder, Shorter};
use sichen_core::timekeeping::{CLOCK_KEY, Standing, Told};

use super::state::{State, Tx};
use crate::clock::Keeper;
use crate::happened::clock_accepted;

fn shifted(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Believes the clock, and gives all that is not over as much more time as it stepped ahead.
pub(super) fn accept(tx: &mut Tx<'_>, keeper: &Keeper) -> Option<SignedDuration> {
    let told = keeper.read();
    if !told.held {
        return None;
    }
    let step = told.wall.duration_since(tx.now);
    shift(tx.state, tx.now, step);
    keeper.accept(keeper.kept().accepts + 1);
    let happened = clock_accepted(tx.now, told.wall);
    tx.event(Entity::Duty(CLOCK_KEY.to_owned()), 0, happened);
    Some(step)
}

/// Gives all that is not over at `now` so much more time.
fn shift(state: &mut State, now: Timestamp, by: SignedDuration) {
    for node in state.nodes.values_mut().filter(|n| n.expires_at > now) {
        node.expires_at = shifted(node.expires_at, by);
    }
    let sessions = state.sessions.values_mut();
    for session in sessions.filter(|s| s.ended.is_none() && s.expires_at > now) {
        session.expires_at = shifted(session.expires_at, by);
    }
    for row in state.shards.values_mut() {
        row.shard.timeout_at = row.shard.timeout_at.map(|at| shifted(at, by));
        row.shard.attempt_until = row.shard.attempt_until.map(|at| shifted(at, by));
    }
    for run in state.runs.values_mut() {
        if let Some(at) = run.dead_by.filter(|at| *at >= now) {
            run.dead_by = Some(shifted(at, by));
        }
    }
    for hold in state.holds.values_mut() {
        hold.until = hold
            .until
            .map(|at| if at >= now { shifted(at, by) } else { at });
    }
    let runs = state.runs.values_mut();
    for run in runs.filter(|run| run.ended_at.is_none() && run.stop.is_none()) {
        let deadline = run.terms.deadline.filter(|at| *at >= now);
        if let Some(at) = deadline {
            run.terms.deadline = Some(shifted(at, by));
        }
    }
}

/// Whether time stands still.
pub(super) fn is_behind(told: &Told) -> bool {
    told.standing() == Standing::Behind
}

/// Earlier ends of leases, while time stands still (`behind`).
pub(super) fn shorten(tx: &mut Tx<'_>, fence: &Fence, leases: &[Shorter], behind: bool) -> u32 {
    if !behind || !tx.under(fence) {
        return 0;
    }
    let mut changed = 0;
    for lease in leases
        .iter()
        .filter(|lease| lease.is_worn_under(&fence.key))
    {
        let end = match lease.of {
            Holder::Session(id) => {
                let live = tx.state.sessions.get_mut(&id);
                let live = live.filter(|session| session.ended.is_none());
                live.map(|session| &mut session.expires_at)
            }
            Holder::Node(id) => tx.state.nodes.get_mut(&id).map(|node| &mut node.expires_at),
        };
        if let Some(end) = end.filter(|end| **end == lease.from && lease.to < lease.from) {
            *end = lease.to;
            changed += 1;
        }
    }
    changed
}
