//! Events and old runs.

use jiff::Timestamp;
use sichen_core::backfill::check::CheckState;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, Revision, RunId, ShardKey};
use sichen_core::model::{Decision, Dump, DutyKey, Run};
use sichen_core::name::JobName;
use sichen_core::port::{Error, EventFilter, Fence, Page, Removed};

use super::state::{CalendarRow, JobRow, State, Tx};
use super::{capped, keys};
use crate::happened::old_term;

/// Idempotency keys that are forgotten in one transaction.
const KEYS: usize = 500;

fn run_of(entity: &Entity) -> Option<RunId> {
    match entity {
        Entity::Run(id) => Some(*id),
        Entity::Shard(key) => Some(key.run),
        Entity::Job(_)
        | Entity::Session(_)
        | Entity::Node(_)
        | Entity::Duty(_)
        | Entity::Calendar(_)
        | Entity::Backfill(_)
        | Entity::AccessToken(_)
        | Entity::User(_)
        | Entity::Capacity(_)
        | Entity::Namespace(_) => None,
    }
}

pub(super) fn list_events(state: &State, filter: EventFilter, page: &Page<u64>) -> Vec<Event> {
    let after = page.after.unwrap_or(0);
    let start = state.events.partition_point(|e| e.seq <= after);
    state.events[start..]
        .iter()
        .filter(|e| filter.run.is_none_or(|run| run_of(&e.entity) == Some(run)))
        .filter(|e| {
            filter
                .shard
                .is_none_or(|key| e.entity == Entity::Shard(key))
        })
        .take(capped(page))
        .cloned()
        .collect()
}

pub(super) fn list_ended(
    state: &State,
    until: Timestamp,
    page: &Page<(Timestamp, RunId)>,
) -> Vec<Run> {
    let place = |run: &&Run| run.ended_at.map(|at| (at, run.id));
    let is_wanted =
        |run: &&Run| place(run).is_some_and(|own| own.0 <= until && Some(own) > page.after);
    let mut runs: Vec<&Run> = state.runs.values().filter(is_wanted).collect();
    runs.sort_by_key(place);
    runs.into_iter().take(capped(page)).cloned().collect()
}

pub(super) fn remove(
    tx: &mut Tx<'_>,
    fence: &Fence,
    before: Timestamp,
    limit: usize,
) -> Result<Removed, Error> {
    if fence.key != DutyKey::Janitor || !tx.under(fence) {
        return Err(old_term(fence));
    }
    let old: Vec<RunId> = tx
        .state
        .runs
        .values()
        .filter(|run| run.state.is_closed() && run.ended_at.is_some_and(|at| at < before))
        .map(|run| run.id)
        .take(limit)
        .collect();
    for id in &old {
        let Some(run) = tx.state.runs.remove(id) else {
            continue;
        };
        tx.state.occasions.remove(&(run.job, run.occasion.key()));
        let keys: Vec<ShardKey> = tx.state.shards_of(*id).map(|row| row.shard.key).collect();
        for key in keys {
            tx.state.shards.remove(&key);
        }
        let of_run = |run: RunId, state: CheckState| run == *id && state.is_over();
        tx.state
            .checks
            .retain(|(run, _), check| !of_run(*run, check.state));
        tx.state.recalls.retain(|(key, _), _| key.run != *id);
        tx.state.events.retain(|e| run_of(&e.entity) != Some(*id));
        if let Some(at) = run.occasion.planned_at() {
            let state = run.state.word().to_owned();
            let decision = Decision::single(at, Decision::REMOVED, state);
            tx.state.decisions.push((run.job, decision));
        }
    }
    let more_keys = keys::forget(tx.state, tx.now, KEYS);
    Ok(Removed {
        runs: u32::try_from(old.len()).unwrap_or(u32::MAX),
        more: old.len() == limit || more_keys,
    })
}

fn revisions(row: &JobRow) -> impl Iterator<Item = (JobUid, Revision, String)> {
    let uid = row.job.uid;
    let revisions = row.revisions.iter();
    revisions.map(move |(revision, document)| (uid, *revision, document.clone()))
}

fn versions<'a>(
    (name, row): (&'a JobName, &'a CalendarRow),
) -> impl Iterator<Item = (JobName, u32, String)> + 'a {
    let versions = row.versions.iter();
    versions.map(|(version, (document, _))| (name.clone(), *version, document.clone()))
}

pub(super) fn dump(state: &State) -> Dump {
    Dump {
        jobs: state.jobs.values().map(|row| row.job.clone()).collect(),
        revisions: state.jobs.values().flat_map(revisions).collect(),
        calendars: state.calendars.iter().flat_map(versions).collect(),
        calendar_uses: {
            let uses = state.calendar_uses.iter();
            uses.map(|((name, job), version)| (name.clone(), *job, *version))
                .collect()
        },
        capacities: {
            let rows = state.capacities.values();
            rows.map(|row| (row.capacity.clone(), row.deleted))
                .collect()
        },
        capacity_uses: {
            let uses = state.capacity_uses.iter();
            uses.map(|((name, job), units)| (name.clone(), *job, *units))
                .collect()
        },
        holds: state.holds.values().cloned().collect(),
        recalls: state.recalls.values().copied().collect(),
        namespaces: state.namespaces.values().cloned().collect(),
        runs: state.runs.values().cloned().collect(),
        shards: state.shards.values().map(|row| row.shard.clone()).collect(),
        sessions: state.sessions.values().cloned().collect(),
        duties: state.duties.values().map(|row| row.duty.clone()).collect(),
        backfills: state.backfills.values().cloned().collect(),
        checks: state.checks.values().cloned().collect(),
        access_tokens: state.access_tokens.values().cloned().collect(),
        users: state.users.values().cloned().collect(),
        decisions: state.decisions.clone(),
        events: state.events.clone(),
    }
}
