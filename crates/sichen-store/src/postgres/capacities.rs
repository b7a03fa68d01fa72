//! Capacities, what jobs use of them, and what attempts hold.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sichen_core::capacity::{self, Ledger, Uses};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::model::{Capacity, Hold, Standing, Waiter};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{ApplyCapacity, CapacityDeleted, CapacityVerdict, Page};

use super::batch::Batched;
use super::param::params;
use super::row::{at, int, opt_at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};
use crate::row::Held;

/// Users that a refused deletion names.
const NAMED: u32 = 10;

fn texts<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    names.into_iter().map(Name::to_string).collect()
}

/// What is held of these capacities.
async fn standings(read: &Read, rows: Vec<(Capacity, bool)>) -> Result<Vec<Standing>> {
    let names = texts(rows.iter().map(|(capacity, _)| &capacity.name));
    let params = (names, at(read.now));
    let held = read.all(sql::SUM_HOLDS, params, |row| row.held()).await?;
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

pub(super) async fn get(read: &Read, names: &[Name]) -> Result<Vec<Standing>> {
    let rows = read
        .all(sql::GET_CAPACITIES, [texts(names)], |row| row.capacity())
        .await?;
    standings(read, rows).await
}

pub(super) async fn list(read: &Read, page: &Page<Name>) -> Result<Vec<Standing>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let rows = read
        .all(sql::LIST_CAPACITIES, (after, capped(page)), |row| {
            row.capacity()
        })
        .await?;
    standings(read, rows).await
}

/// A capacity, and whether it is deleted.
async fn row_of(read: &Read, name: &Name) -> Result<Option<(Capacity, bool)>> {
    read.one(sql::GET_CAPACITY, [name.as_str()], |row| row.capacity())
        .await
}

async fn put(tx: &Tx, capacity: &Capacity, deleted: bool) -> Result<()> {
    let rate = capacity.limits.rate;
    let params = params![
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
    ];
    tx.must(sql::PUT_CAPACITY, params).await
}

pub(super) async fn apply(tx: &mut Tx, a: ApplyCapacity) -> Result<CapacityVerdict> {
    let row = row_of(tx, &a.name).await?;
    let row = row.as_ref().map(|(capacity, deleted)| (capacity, *deleted));
    let applied = match capacity::apply(row, a, tx.now) {
        Ok(applied) => applied,
        Err(verdict) => return Ok(verdict),
    };
    let row = &applied.capacity;
    put(tx, row, false).await?;
    let happened = Happened {
        data: row.limits.told(),
        ..Happened::new(Kind::CapacityApplied, applied.from, "live")
    };
    tx.event(&Entity::Capacity(row.name.clone()), row.ver, &happened)?;
    Ok(applied.verdict)
}

pub(super) async fn delete(tx: &mut Tx, name: &Name) -> Result<CapacityDeleted> {
    let Some((mut capacity, false)) = row_of(tx, name).await? else {
        return Ok(CapacityDeleted::Missing);
    };
    let params = (name.as_str(), NAMED);
    let jobs: Vec<JobName> = tx
        .all(sql::LIST_CAPACITY_USERS, params, |row| row.job_name(0))
        .await?;
    if !jobs.is_empty() {
        return Ok(CapacityDeleted::Used(jobs));
    }
    // Asked after the jobs: a run is made before its job's revision is another.
    let open: Vec<RunId> = tx
        .all(sql::LIST_OPEN_USERS, params, |row| Ok(RunId(row.u64(0)?)))
        .await?;
    if !open.is_empty() {
        return Ok(CapacityDeleted::Open(open));
    }
    let used = get(tx, std::slice::from_ref(name)).await?;
    if let Some(used) = used.first().map(|s| s.used).filter(|used| *used > 0) {
        return Ok(CapacityDeleted::Held(used));
    }
    tx.run(sql::FORGET_HOLDS, (texts([name]), at(tx.now)))
        .await?;
    capacity.ver += 1;
    put(tx, &capacity, true).await?;
    let happened = Happened::new(Kind::CapacityDeleted, "live", "deleted");
    tx.event(&Entity::Capacity(capacity.name), capacity.ver, &happened)?;
    Ok(CapacityDeleted::Deleted)
}

pub(super) async fn holds(read: &Read, name: &Name, limit: u32) -> Result<Vec<Hold>> {
    let params = (name.as_str(), at(read.now), limit);
    read.all(sql::LIST_HOLDS, params, |row| row.hold()).await
}

pub(super) async fn waiters(read: &Read, name: &Name, limit: u32) -> Result<Vec<Waiter>> {
    let params = (name.as_str(), at(read.now), limit);
    read.all(sql::LIST_WAITERS, params, |row| row.waiter())
        .await
}

/// Whether all that is used is there; it stays so until the transaction ends.
pub(super) async fn are_there(read: &Read, uses: &Uses) -> Result<bool> {
    if uses.is_empty() {
        return Ok(true);
    }
    let names = texts(uses.names());
    let wanted = names.len();
    let found = read.all(sql::SHARE_CAPACITIES, [names], |_| Ok(())).await?;
    Ok(found.len() == wanted)
}

/// A job that used nothing before uses these.
pub(super) async fn add_uses(tx: &Tx, job: JobUid, uses: &Uses) -> Result<()> {
    for (name, units) in uses.iter() {
        let params = (job.0, name.as_str(), units);
        tx.must(sql::INSERT_CAPACITY_USE, params).await?;
    }
    Ok(())
}

/// The job's present revision uses these.
pub(super) async fn use_in(tx: &Tx, job: JobUid, uses: &Uses) -> Result<()> {
    tx.run(sql::DELETE_CAPACITY_USES, [job.0]).await?;
    add_uses(tx, job, uses).await
}

/// Locks all that these runs use, and opens its accounts; what counts no more is taken away.
pub(super) async fn open(tx: &mut Tx, runs: &[Uses]) -> Result<Ledger> {
    let names: BTreeSet<&Name> = runs.iter().flat_map(Uses::names).collect();
    if names.is_empty() {
        return Ok(Ledger::default());
    }
    let names = texts(names);
    let rows = tx
        .all(sql::LOCK_CAPACITIES, [names.clone()], |row| row.capacity())
        .await?;
    // The clock once more: it is read when all locks are there.
    tx.tell_time().await?;
    tx.run(sql::FORGET_HOLDS, (names, at(tx.now))).await?;
    let live = rows.into_iter().filter(|(_, deleted)| !deleted);
    let found = standings(tx, live.collect()).await?;
    let accounts = found.iter().map(|s| (s.capacity.name.clone(), s.account()));
    Ok(Ledger::open(accounts))
}

/// Writes what a transaction took of rates.
pub(super) async fn close(tx: &Tx, ledger: &Ledger) -> Result<()> {
    for (name, bucket) in ledger.changed() {
        let params = (name.as_str(), bucket.level, at(bucket.at));
        tx.must(sql::FILL_CAPACITY, params).await?;
    }
    Ok(())
}

/// An attempt that was just granted holds what its run uses.
pub(super) fn hold(tx: &Tx, key: ShardKey, token: Token, session: SessionId, uses: &Uses) {
    for (name, units) in uses.iter() {
        let params = params![
            int(key.run.0),
            key.no.0,
            int(token.0),
            name.as_str(),
            units,
            int(session.0),
            at(tx.now),
        ];
        tx.gathered(|gathered| gathered.add(Batched::InsertHold, params));
    }
}

/// What the attempt under `token` held is free; `until`: only from then on, for nobody has confirmed
/// that its task tree is gone.
pub(super) fn end(tx: &Tx, key: ShardKey, token: Token, uses: &Uses, until: Option<Timestamp>) {
    for name in uses.names() {
        let (run, no, token) = (int(key.run.0), key.no.0, int(token.0));
        tx.gathered(|gathered| match until {
            None => gathered.add(Batched::DeleteHold, (run, no, token, name.as_str())),
            Some(_) => {
                let params = (run, no, token, name.as_str(), opt_at(until));
                gathered.add(Batched::LimitHold, params);
            }
        });
    }
}
