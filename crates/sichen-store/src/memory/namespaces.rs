//! What namespaces may have of the pools.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::JobUid;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Namespace, NamespaceChange, NamespaceUse, QueueFull};
use sichen_core::name::Name;
use sichen_core::port::{GrantRefused, Page};
use sichen_core::zoo;

use super::capped;
use super::state::{Happened, State, Tx};
use crate::happened::namespace_set;

pub(super) fn set(tx: &mut Tx<'_>, name: Name, change: &NamespaceChange) -> Namespace {
    let old = tx.state.namespaces.get(&name).cloned();
    let old = old.unwrap_or_else(|| Namespace::plain(name));
    let ver = old.ver;
    let set = old.changed(change);
    if set.ver == ver {
        return set;
    }
    tx.state.namespaces.insert(set.name.clone(), set.clone());
    let happened = Happened {
        data: namespace_set(&set),
        ..Happened::new(Kind::NamespaceSet, if ver == 0 { "" } else { "set" }, "set")
    };
    tx.event(Entity::Namespace(set.name.clone()), set.ver, happened);
    set
}

pub(super) fn list(state: &State, page: &Page<Name>) -> Vec<(Namespace, NamespaceUse)> {
    let after = |name: &Name| page.after.as_ref().is_none_or(|after| name > after);
    let rows = state.namespaces.values().filter(|row| after(&row.name));
    rows.take(capped(page))
        .map(|row| {
            let has = NamespaceUse {
                running: row.max_running.map(|_| running(state, &row.name)),
                queued: row.max_queued.map(|_| queued(state, &row.name)),
            };
            (row.clone(), has)
        })
        .collect()
}

fn running(state: &State, name: &Name) -> u32 {
    let of = |row: &&super::state::ShardRow| {
        row.shard.state == ShardState::Running
            && (state.runs.get(&row.shard.key.run))
                .is_some_and(|run| run.job_name.namespace == *name)
    };
    u32::try_from(state.shards.values().filter(of).count()).unwrap_or(u32::MAX)
}

/// Whether one more shard of the namespace may run.
pub(super) fn may_run(state: &State, name: &Name) -> Result<(), GrantRefused> {
    let most = state.namespaces.get(name).and_then(|row| row.max_running);
    match most {
        Some(most) if running(state, name) >= most && !zoo::is("namespace-unchecked") => {
            Err(GrantRefused::Namespace)
        }
        Some(_) | None => Ok(()),
    }
}

fn queued(state: &State, name: &Name) -> u32 {
    let waits = |run: &&sichen_core::model::Run| {
        run.state == RunState::Scheduled && run.job_name.namespace == *name
    };
    u32::try_from(state.runs.values().filter(waits).count()).unwrap_or(u32::MAX)
}

/// Whether `more` runs of the job may be queued.
pub(super) fn may_queue(state: &State, job: JobUid, more: u32) -> Result<(), QueueFull> {
    let name = state.jobs.get(&job).map(|row| &row.job.name.namespace);
    match name.and_then(|name| state.namespaces.get(name)) {
        Some(row) if row.max_queued.is_some() => row.admits(queued(state, &row.name), more),
        Some(_) | None => Ok(()),
    }
}
