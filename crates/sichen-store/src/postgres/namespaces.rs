//! What namespaces may have of the pools.
//!
//! # Invariants
//! - Who grants to a limited namespace holds its row and counts its held shards; who ends an attempt
//!   touches neither.
//! - Who writes runs of a namespace whose queue is limited holds its row and counts what is queued; who starts
//!   or stops a run touches neither.

use std::collections::{BTreeMap, BTreeSet};

use sichen_core::dispatch::queue::queues_of;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::JobUid;
use sichen_core::model::{MAX_QUEUED_RUNS, Namespace, NamespaceChange, NamespaceUse, QueueFull};
use sichen_core::name::Name;
use sichen_core::port::Page;

use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};
use crate::happened::namespace_set;

pub(super) async fn set(tx: &mut Tx, name: Name, change: &NamespaceChange) -> Result<Namespace> {
    let old = tx
        .one(sql::LOCK_NAMESPACE, [name.as_str()], |row| row.namespace())
        .await?;
    let old = old.unwrap_or_else(|| Namespace::plain(name));
    let ver = old.ver;
    let set = old.changed(change);
    if set.ver == ver {
        return Ok(set);
    }
    let params = (
        set.name.as_str(),
        set.ver,
        set.weight,
        set.max_running,
        set.max_queued,
    );
    tx.must(sql::PUT_NAMESPACE, params).await?;
    tx.must(sql::NOTE_LIMITS, ()).await?;
    let happened = Happened {
        data: namespace_set(&set),
        ..Happened::new(Kind::NamespaceSet, if ver == 0 { "" } else { "set" }, "set")
    };
    tx.event(&Entity::Namespace(set.name.clone()), set.ver, &happened)?;
    Ok(set)
}

pub(super) async fn list(read: &Read, page: &Page<Name>) -> Result<Vec<(Namespace, NamespaceUse)>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let params = (after, capped(page));
    let rows = read
        .all(sql::LIST_NAMESPACES, params, |row| row.namespace())
        .await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let mut has = NamespaceUse::default();
        if row.max_running.is_some() {
            has.running = Some(running(read, &row.name).await?);
        }
        if row.max_queued.is_some() {
            has.queued = Some(queued(read, &row.name).await?);
        }
        found.push((row, has));
    }
    Ok(found)
}

async fn running(read: &Read, name: &Name) -> Result<u32> {
    read.count(sql::COUNT_RUNNING_OF_NAMESPACE, queues_of(name))
        .await
}

/// How many more shards of namespaces may run, of those that have a limit.
#[derive(Default)]
pub(super) struct Limits(BTreeMap<Name, u32>);

impl Limits {
    /// Locks those of these namespaces that have a limit. Costs nothing where none has.
    pub async fn lock(tx: &Tx, names: BTreeSet<Name>) -> Result<Self> {
        if !tx.limited || names.is_empty() {
            return Ok(Self::default());
        }
        let names: Vec<String> = names.iter().map(Name::to_string).collect();
        let rows = tx
            .all(sql::LOCK_NAMESPACES, [names], |row| row.namespace())
            .await?;
        let mut room = BTreeMap::new();
        for row in rows {
            let running = running(tx, &row.name).await?;
            let most = row.max_running.unwrap_or(u32::MAX);
            room.insert(row.name, most.saturating_sub(running));
        }
        Ok(Self(room))
    }

    /// Whether one more shard of the namespace may run.
    pub fn has_room(&self, name: &Name) -> bool {
        self.0.get(name) != Some(&0)
    }

    /// One more shard of the namespace runs.
    pub fn take(&mut self, name: &Name) {
        if let Some(room) = self.0.get_mut(name) {
            *room = room.saturating_sub(1);
        }
    }
}

/// Whether a limit keeps new runs of the namespace from being born leased: only who grants counts.
pub(super) async fn is_limited(tx: &Tx, name: &Name) -> Result<bool> {
    if !tx.limited {
        return Ok(false);
    }
    let row = tx.one(sql::GET_NAMESPACE, [name.as_str()], |row| row.namespace());
    Ok(row.await?.is_some_and(|row| row.max_running.is_some()))
}

/// Runs of the namespace of which nothing was started: no more than decide anything.
async fn queued(read: &Read, name: &Name) -> Result<u32> {
    let params = (name.as_str(), MAX_QUEUED_RUNS + 1);
    read.count(sql::COUNT_QUEUED_OF_NAMESPACE, params).await
}

/// Locks those of the namespaces of these jobs whose queues are limited, so that one transaction at a time
/// counts and adds. Costs nothing where none is.
pub(super) async fn lock_queues(tx: &mut Tx, jobs: Vec<JobUid>) -> Result<()> {
    if !tx.queues_limited {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    for job in jobs {
        let row = tx.job(job).await?;
        names.extend(row.map(|row| row.job.name.namespace.to_string()));
    }
    if names.is_empty() {
        return Ok(());
    }
    let names = Vec::from_iter(names);
    let rows = tx
        .all(sql::LOCK_QUEUES, [names], |row| row.namespace())
        .await?;
    tx.limit_queues(rows);
    // Whoever had them may have kept them for long.
    tx.tell_time().await
}

/// Whether `more` runs of the namespace may be queued. They are counted once in a transaction.
pub(super) async fn may_queue(
    tx: &mut Tx,
    name: &Name,
    more: u32,
) -> Result<std::result::Result<(), QueueFull>> {
    let Some(row) = tx.limited_queue(name) else {
        return Ok(Ok(()));
    };
    let known = tx.queue_of(name);
    let queued = match known {
        Some(queued) => queued,
        None => {
            let queued = queued(tx, name).await?;
            tx.note_queue(name, queued);
            queued
        }
    };
    Ok(row.admits(queued, more))
}
