//! Capacities, what jobs use of them, and what attempts hold.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sichen_core::capacity::{self, Account, Ledger, Uses};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::model::{Hold, Run, Standing, Waiter};
use sichen_core::name::Name;
use sichen_core::port::{ApplyCapacity, CapacityDeleted, CapacityVerdict, Page};
use sichen_core::zoo;

use super::capped;
use super::state::{CapacityRow, Happened, State, Tx};

/// Users that a refused deletion names.
const NAMED: usize = 10;

fn live<'a>(state: &'a State, name: &Name) -> Option<&'a CapacityRow> {
    state.capacities.get(name).filter(|row| !row.deleted)
}

fn standing(state: &State, row: &CapacityRow, now: Timestamp) -> Standing {
    let holds = state.holds.values();
    let holds = holds.filter(|h| h.capacity == row.capacity.name && h.counts(now));
    let (mut used, mut n, mut next_end) = (0, 0, None);
    for hold in holds {
        used += u64::from(hold.units);
        n += 1;
        next_end = hold.until.into_iter().chain(next_end).min();
    }
    Standing {
        capacity: row.capacity.clone(),
        used,
        holds: n,
        next_end,
    }
}

pub(super) fn get(state: &State, names: &[Name], now: Timestamp) -> Vec<Standing> {
    let names: BTreeSet<&Name> = names.iter().collect();
    let rows = names.into_iter().filter_map(|name| live(state, name));
    rows.map(|row| standing(state, row, now)).collect()
}

pub(super) fn list(state: &State, page: &Page<Name>, now: Timestamp) -> Vec<Standing> {
    let after = |name: &Name| page.after.as_ref().is_none_or(|after| name > after);
    let rows = state.capacities.iter();
    rows.filter(|(name, row)| after(name) && !row.deleted)
        .map(|(_, row)| standing(state, row, now))
        .take(capped(page))
        .collect()
}

pub(super) fn apply(tx: &mut Tx<'_>, a: ApplyCapacity) -> CapacityVerdict {
    let row = tx.state.capacities.get(&a.name);
    let row = row.map(|row| (&row.capacity, row.deleted));
    let applied = match capacity::apply(row, a, tx.now) {
        Ok(applied) => applied,
        Err(verdict) => return verdict,
    };
    let capacity = applied.capacity;
    let (name, ver) = (capacity.name.clone(), capacity.ver);
    let happened = Happened {
        data: capacity.limits.told(),
        ..Happened::new(Kind::CapacityApplied, applied.from, "live")
    };
    let row = CapacityRow {
        capacity,
        deleted: false,
    };
    tx.state.capacities.insert(name.clone(), row);
    tx.event(Entity::Capacity(name), ver, happened);
    applied.verdict
}

pub(super) fn delete(tx: &mut Tx<'_>, name: Name) -> CapacityDeleted {
    let Some(row) = live(tx.state, &name) else {
        return CapacityDeleted::Missing;
    };
    let used = standing(tx.state, row, tx.now).used;
    let ver = row.capacity.ver + 1;
    let of = tx.state.capacity_uses.keys().filter(|(of, _)| *of == name);
    let jobs = of.filter_map(|(_, job)| tx.state.jobs.get(job));
    let jobs: Vec<_> = jobs.map(|row| row.job.name.clone()).take(NAMED).collect();
    if !jobs.is_empty() {
        return CapacityDeleted::Used(jobs);
    }
    let open: Vec<RunId> = users(tx.state, &name)
        .map(|run| run.id)
        .take(NAMED)
        .collect();
    if !open.is_empty() {
        return CapacityDeleted::Open(open);
    }
    if used > 0 {
        return CapacityDeleted::Held(used);
    }
    tx.state.holds.retain(|_, hold| hold.capacity != name);
    if let Some(row) = tx.state.capacities.get_mut(&name) {
        (row.deleted, row.capacity.ver) = (true, ver);
    }
    let happened = Happened::new(Kind::CapacityDeleted, "live", "deleted");
    tx.event(Entity::Capacity(name), ver, happened);
    CapacityDeleted::Deleted
}

/// Open runs that use a capacity.
fn users<'a>(state: &'a State, name: &'a Name) -> impl Iterator<Item = &'a Run> {
    let open = state.runs.values().filter(|run| run.ended_at.is_none());
    open.filter(|run| run.terms.uses.of(name).is_some())
}

pub(super) fn holds(state: &State, name: &Name, now: Timestamp, limit: usize) -> Vec<Hold> {
    let of = state.holds.values();
    let mut holds: Vec<Hold> = of
        .filter(|hold| hold.capacity == *name && hold.counts(now))
        .cloned()
        .collect();
    holds.sort_by_key(|hold| (hold.since, hold.key, hold.token));
    holds.truncate(limit);
    holds
}

pub(super) fn waiters(state: &State, name: &Name, now: Timestamp, limit: usize) -> Vec<Waiter> {
    let waiting = users(state, name).filter_map(|run| {
        let shards = state.shards_of(run.id).map(|row| &row.shard);
        let ready = shards.filter(|s| s.state.is_grantable() && s.ready_at <= now);
        Some(Waiter {
            run: run.id,
            job_name: run.job_name.clone(),
            pool: run.terms.pool.clone(),
            units: run.terms.uses.of(name)?,
            since: ready.map(|shard| shard.ready_at).min()?,
        })
    });
    waiting.take(limit).collect()
}

/// Whether all that is used is there.
pub(super) fn are_there(state: &State, uses: &Uses) -> bool {
    uses.names().all(|name| live(state, name).is_some())
}

/// The job's present revision uses these.
pub(super) fn use_in(tx: &mut Tx<'_>, job: JobUid, uses: &Uses) {
    tx.state.capacity_uses.retain(|(_, uid), _| *uid != job);
    let uses = uses.iter().map(|(name, n)| ((name.clone(), job), n));
    tx.state.capacity_uses.extend(uses);
}

/// The accounts of all that these runs use; what counts no more is taken away.
pub(super) fn open(tx: &mut Tx<'_>, runs: impl Iterator<Item = RunId>) -> Ledger {
    let runs = runs.filter_map(|id| tx.state.runs.get(&id));
    let names: BTreeSet<Name> = runs
        .flat_map(|run| run.terms.uses.names().cloned())
        .collect();
    let now = tx.now;
    let gone = |hold: &Hold| names.contains(&hold.capacity) && !hold.counts(now);
    tx.state.holds.retain(|_, hold| !gone(hold));
    let rows = names.iter().filter_map(|name| live(tx.state, name));
    let accounts: Vec<(Name, Account)> = rows
        .map(|row| {
            let mut account = standing(tx.state, row, now).account();
            if zoo::is("capacity-unchecked") {
                account.used = 0;
            }
            (row.capacity.name.clone(), account)
        })
        .collect();
    Ledger::open(accounts)
}

/// Writes what a transaction took of rates.
pub(super) fn close(tx: &mut Tx<'_>, ledger: &Ledger) {
    if zoo::is("rate-untaken") {
        return;
    }
    for (name, bucket) in ledger.changed() {
        if let Some(row) = tx.state.capacities.get_mut(name) {
            row.capacity.bucket = bucket;
        }
    }
}

/// An attempt that was just granted holds what its run uses.
pub(super) fn hold(tx: &mut Tx<'_>, key: ShardKey, token: Token, session: SessionId, uses: &Uses) {
    for (name, units) in uses.iter() {
        let hold = Hold {
            key,
            token,
            capacity: name.clone(),
            units,
            session,
            since: tx.now,
            until: None,
        };
        tx.state.holds.insert((key, token, name.clone()), hold);
    }
}

/// What the attempt under `token` held is free; `until`: only from then on, for nobody has confirmed
/// that its task tree is gone.
pub(super) fn end(
    tx: &mut Tx<'_>,
    key: ShardKey,
    token: Token,
    uses: &Uses,
    until: Option<Timestamp>,
) {
    if zoo::is("hold-kept-at-end") {
        return;
    }
    let until = until.filter(|_| !zoo::is("hold-ends-at-once"));
    for name in uses.names() {
        let of = (key, token, name.clone());
        match until {
            None => drop(tx.state.holds.remove(&of)),
            Some(_) => {
                if let Some(hold) = tx.state.holds.get_mut(&of) {
                    hold.until = until;
                }
            }
        }
    }
}
