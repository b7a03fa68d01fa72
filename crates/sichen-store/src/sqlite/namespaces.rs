//! What namespaces may have of the pools.

use sichen_core::event::{Entity, Kind};
use sichen_core::model::{MAX_QUEUED_RUNS, Namespace, NamespaceChange, NamespaceUse, QueueFull};
use sichen_core::name::Name;
use sichen_core::port::Page;

use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};
use crate::happened::namespace_set;

pub(super) fn set(tx: &mut Tx<'_>, name: Name, change: &NamespaceChange) -> Result<Namespace> {
    let old = get(tx, &name)?;
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
    tx.must(sql::PUT_NAMESPACE, params)?;
    let happened = Happened {
        data: namespace_set(&set),
        ..Happened::new(Kind::NamespaceSet, if ver == 0 { "" } else { "set" }, "set")
    };
    tx.event(&Entity::Namespace(set.name.clone()), set.ver, &happened)?;
    Ok(set)
}

fn get(read: &Read<'_>, name: &Name) -> Result<Option<Namespace>> {
    read.one(sql::GET_NAMESPACE, [name.as_str()], |row| row.namespace())
}

pub(super) fn list(read: &Read<'_>, page: &Page<Name>) -> Result<Vec<(Namespace, NamespaceUse)>> {
    let after = page.after.as_ref().map_or("", Name::as_str);
    let rows = read.all(sql::LIST_NAMESPACES, (after, capped(page)), |row| {
        row.namespace()
    })?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let counted = row.max_running.map(|_| running(read, &row.name));
        let waiting = row.max_queued.map(|_| queued(read, &row.name));
        let has = NamespaceUse {
            running: counted.transpose()?,
            queued: waiting.transpose()?,
        };
        found.push((row, has));
    }
    Ok(found)
}

fn running(read: &Read<'_>, name: &Name) -> Result<u32> {
    read.count(sql::COUNT_RUNNING_OF_NAMESPACE, [name.as_str()])
}

/// How many more shards of the namespace may run; `None` if that is not limited.
pub(super) fn room(read: &Read<'_>, name: &Name) -> Result<Option<u32>> {
    let most = get(read, name)?.and_then(|row| row.max_running);
    Ok(match most {
        Some(most) => Some(most.saturating_sub(running(read, name)?)),
        None => None,
    })
}

/// Runs of the namespace of which nothing was started: no more than decide anything.
fn queued(read: &Read<'_>, name: &Name) -> Result<u32> {
    let params = (name.as_str(), MAX_QUEUED_RUNS + 1);
    read.count(sql::COUNT_QUEUED_OF_NAMESPACE, params)
}

/// Whether `more` runs of the namespace may be queued. They are counted once in a transaction.
pub(super) fn may_queue(
    tx: &mut Tx<'_>,
    name: &Name,
    more: u32,
) -> Result<std::result::Result<(), QueueFull>> {
    if !tx.queues.contains_key(name) {
        let row = get(tx, name)?.filter(|row| row.max_queued.is_some());
        let counted = match row {
            Some(row) => Some((queued(tx, name)?, row)),
            None => None,
        };
        tx.queues.insert(name.clone(), counted);
    }
    let counted = tx.queues.get(name).and_then(Option::as_ref);
    Ok(counted.map_or(Ok(()), |(queued, row)| row.admits(*queued, more)))
}
