//! Capacities, what jobs use of them, and what attempts hold.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sichen_core::capacity::{self, Ledger, Uses};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::model::{Capacity, Hold, Standing, Waiter};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{ApplyCapacity, CapacityDeleted, CapacityVerdict, Page};

use super::row::{at, blob, int, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};
use crate::row::Held;

/// Users that a refused deletion names.
const NAMED: u32 = 10;

/// Names as the JSON array that statements take.
fn json(names: &[&Name]) -> String {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    serde_json::Value::from(names).to_string()
}

/// What is held of these capacities.
fn standings(read: &Read<'_>, rows: Vec<(Capacity, bool)>) -> Result<Vec<Standing>> {
    let names: Vec<&Name> = rows.iter().map(|(capacity, _)| &capacity.name).collect();
    let held = read.all(sql::SUM_HOLDS, (json(&names), at(read.now)), |row| {
        row.held()
    })?;
    let mut held: BTreeMap<Name, Held> = held.into_iter().collect();
    let standings = rows.into_iter().map(|(capacity, _)| {
        let (used, holds, next_end) = held.remove(&capacity.name).unwrap_or_default();
        Standing {
            capacity,
            used,
            holds,
            next_end,
        }
    });
    Ok(standings.collect())
}

pub(super) fn get(read: &Read<'_>, names: &[Name]) -> Result<Vec<Standing>> {
    let names: BTreeSet<&Name> = names.iter().collect();
    let names = Vec::from_iter(names);
    let rows = read.all(sql::GET_CAPACITIES, [json(&names)], |row| row.capacity())?;
    standings(read, rows)
}

pub(super) fn list(read: &Read<'_>, page: &Page<Name>) -> Result<Vec<Standing>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let rows = read.all(sql::LIST_CAPACITIES, (after, capped(page)), |row| {
        row.capacity()
    })?;
    standings(read, rows)
}

/// A capacity, and whether it is deleted.
fn row_of(read: &Read<'_>, name: &Name) -> Result<Option<(Capacity, bool)>> {
    read.one(sql::GET_CAPACITY, [name.as_str()], |row| row.capacity())
}

fn put(tx: &Tx<'_>, capacity: &Capacity, deleted: bool) -> Result<()> {
    let rate = capacity.limits.rate;
    tx.must(
        sql::PUT_CAPACITY,
        rusqlite::params![
            capacity.name.as_str(),
            capacity.ver,
            deleted,
            capacity.document,
            at(capacity.changed_at),
            capacity.limits.units,
            rate.map(|rate| rate.count),
            rate.map(|rate| rate.per.micros()),
            rate.map(|rate| rate.burst),
            capacity.bucket.level,
            at(capacity.bucket.at),
        ],
    )
}

pub(super) fn apply(tx: &mut Tx<'_>, a: ApplyCapacity) -> Result<CapacityVerdict> {
    let row = row_of(tx, &a.name)?;
    let row = row.as_ref().map(|(capacity, deleted)| (capacity, *deleted));
    let applied = match capacity::apply(row, a, tx.now) {
        Ok(applied) => applied,
        Err(verdict) => return Ok(verdict),
    };
    let row = &applied.capacity;
    put(tx, row, false)?;
    let happened = Happened {
        data: row.limits.told(),
        ..Happened::new(Kind::CapacityApplied, applied.from, "live")
    };
    tx.event(&Entity::Capacity(row.name.clone()), row.ver, &happened)?;
    Ok(applied.verdict)
}

pub(super) fn delete(tx: &mut Tx<'_>, name: &Name) -> Result<CapacityDeleted> {
    let Some((mut capacity, false)) = row_of(tx, name)? else {
        return Ok(CapacityDeleted::Missing);
    };
    let jobs: Vec<JobName> = tx.all(sql::LIST_CAPACITY_USERS, (name.as_str(), NAMED), |row| {
        row.job_name(0)
    })?;
    if !jobs.is_empty() {
        return Ok(CapacityDeleted::Used(jobs));
    }
    let open: Vec<RunId> = tx.all(sql::LIST_OPEN_USERS, (name.as_str(), NAMED), |row| {
        Ok(RunId(row.u64(0)?))
    })?;
    if !open.is_empty() {
        return Ok(CapacityDeleted::Open(open));
    }
    let used = get(tx, std::slice::from_ref(name))?;
    if let Some(used) = used.first().map(|s| s.used).filter(|used| *used > 0) {
        return Ok(CapacityDeleted::Held(used));
    }
    tx.run(sql::FORGET_HOLDS, (json(&[name]), at(tx.now)))?;
    capacity.ver += 1;
    put(tx, &capacity, true)?;
    let happened = Happened::new(Kind::CapacityDeleted, "live", "deleted");
    tx.event(&Entity::Capacity(capacity.name), capacity.ver, &happened)?;
    Ok(CapacityDeleted::Deleted)
}

pub(super) fn holds(read: &Read<'_>, name: &Name, limit: u32) -> Result<Vec<Hold>> {
    let params = (name.as_str(), at(read.now), limit);
    read.all(sql::LIST_HOLDS, params, |row| row.hold())
}

pub(super) fn waiters(read: &Read<'_>, name: &Name, limit: u32) -> Result<Vec<Waiter>> {
    let params = (name.as_str(), at(read.now), limit);
    read.all(sql::LIST_WAITERS, params, |row| row.waiter())
}

/// Whether all that is used is there.
pub(super) fn are_there(read: &Read<'_>, uses: &Uses) -> Result<bool> {
    for name in uses.names() {
        if row_of(read, name)?.is_none_or(|(_, deleted)| deleted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A job that used nothing before uses these.
pub(super) fn add_uses(tx: &Tx<'_>, job: JobUid, uses: &Uses) -> Result<()> {
    for (name, units) in uses.iter() {
        let params = (blob(job.0), name.as_str(), units);
        tx.must(sql::INSERT_CAPACITY_USE, params)?;
    }
    Ok(())
}

/// The job's present revision uses these.
pub(super) fn use_in(tx: &Tx<'_>, job: JobUid, uses: &Uses) -> Result<()> {
    tx.run(sql::DELETE_CAPACITY_USES, [blob(job.0)])?;
    add_uses(tx, job, uses)
}

/// The accounts of all that these runs use; what counts no more is taken away.
pub(super) fn open(tx: &Tx<'_>, runs: &[Uses]) -> Result<Ledger> {
    let names: BTreeSet<Name> = runs.iter().flat_map(|uses| uses.names().cloned()).collect();
    if names.is_empty() {
        return Ok(Ledger::default());
    }
    let all: Vec<&Name> = names.iter().collect();
    tx.run(sql::FORGET_HOLDS, (json(&all), at(tx.now)))?;
    let found = get(tx, &Vec::from_iter(names))?;
    let accounts = found.iter().map(|s| (s.capacity.name.clone(), s.account()));
    Ok(Ledger::open(accounts))
}

/// Writes what a transaction took of rates.
pub(super) fn close(tx: &Tx<'_>, ledger: &Ledger) -> Result<()> {
    for (name, bucket) in ledger.changed() {
        let params = (name.as_str(), bucket.level, at(bucket.at));
        tx.must(sql::FILL_CAPACITY, params)?;
    }
    Ok(())
}

/// An attempt that was just granted holds what its run uses.
pub(super) fn hold(
    tx: &Tx<'_>,
    key: ShardKey,
    token: Token,
    session: SessionId,
    uses: &Uses,
) -> Result<()> {
    for (name, units) in uses.iter() {
        let params = rusqlite::params![
            int(key.run.0),
            key.no.0,
            int(token.0),
            name.as_str(),
            units,
            int(session.0),
            at(tx.now),
        ];
        tx.must(sql::INSERT_HOLD, params)?;
    }
    Ok(())
}

/// What the attempt under `token` held is free; `until`: only from then on, for nobody has confirmed
/// that its task tree is gone.
pub(super) fn end(
    tx: &Tx<'_>,
    key: ShardKey,
    token: Token,
    uses: &Uses,
    until: Option<Timestamp>,
) -> Result<()> {
    for name in uses.names() {
        let (run, no, token) = (int(key.run.0), key.no.0, int(token.0));
        match until {
            None => tx.must(sql::DELETE_HOLD, (run, no, token, name.as_str()))?,
            Some(_) => {
                let params = (run, no, token, name.as_str(), opt_at(until));
                tx.must(sql::LIMIT_HOLD, params)?;
            }
        }
    }
    Ok(())
}
