//! Events and old runs.

use jiff::Timestamp;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, Occasion, RunId};
use sichen_core::model::{Decision, Dump, DutyKey, Run};
use sichen_core::port::{Error, EventFilter, Fence, Page, Removed};

use super::row::{at, int};
use super::tx::{Read, Result, Tx};
use super::{capped, jobs, keys, sql};
use crate::happened::old_term;
use crate::kept_user;
use crate::log::{EVENTS_AT_ONCE, Search};

/// Operations that one call forgets at most.
const OPS: u32 = 10_000;

pub(super) fn list_events(
    read: &Read<'_>,
    filter: EventFilter,
    page: &Page<u64>,
) -> Result<Vec<Event>> {
    let after = int(page.after.unwrap_or(0));
    let limit = capped(page);
    match (filter.run, filter.shard) {
        (Some(run), Some(shard)) if shard.run != run => Ok(Vec::new()),
        (_, Some(shard)) => {
            let params = (after, limit, Entity::Shard(shard).id());
            read.all(sql::LIST_EVENTS_OF_SHARD, params, |row| row.event())
        }
        (Some(run), None) => read.all(sql::LIST_EVENTS_OF_RUN, (after, limit, int(run.0)), |row| {
            row.event()
        }),
        (None, None) => read.all(sql::LIST_EVENTS, (after, limit), |row| row.event()),
    }
}

pub(super) fn list_ended(
    read: &Read<'_>,
    until: Timestamp,
    page: &Page<(Timestamp, RunId)>,
) -> Result<Vec<Run>> {
    let (ended, run) = page
        .after
        .map_or((i64::MIN, 0), |(t, run)| (at(t), int(run.0)));
    let params = |limit: u32| (ended, run, at(until), limit);
    read.sound_page(sql::LIST_ENDED_RUNS, capped(page), params, |row| row.run())
}

pub(super) fn remove(
    tx: &mut Tx<'_>,
    fence: &Fence,
    before: Timestamp,
    limit: u32,
) -> Result<Removed> {
    if fence.key != DutyKey::Janitor || !tx.under(fence)? {
        return Err(old_term(fence));
    }
    let mut old = tx.all(sql::LIST_REMOVABLE_RUNS, (at(before), limit), |row| {
        let occasion = row.text(2)?;
        let occasion = Occasion::parse(&occasion)
            .ok_or_else(|| Error::Corrupt(format!("{occasion:?} is no occasion")))?;
        Ok((
            RunId(row.u64(0)?),
            JobUid(row.uuid(1)?),
            occasion,
            row.text(3)?,
        ))
    })?;
    old.sort_by_key(|(id, ..)| *id);
    let removed = u32::try_from(old.len()).unwrap_or(u32::MAX);
    for (id, job, occasion, state) in old {
        tx.run(sql::DELETE_EVENTS, [int(id.0)])?;
        tx.run(sql::DELETE_SHARDS, [int(id.0)])?;
        tx.run(sql::DELETE_CHECKS, [int(id.0)])?;
        tx.run(sql::DELETE_RECALLS, [int(id.0)])?;
        tx.must(sql::DELETE_RUN, [int(id.0)])?;
        if let Some(at) = occasion.planned_at() {
            let decision = Decision::single(at, Decision::REMOVED, state);
            jobs::insert_decision(tx, job, &decision)?;
        }
    }
    let more_ops = forget_ops(tx, before)?;
    let more_keys = keys::forget(tx)?;
    Ok(Removed {
        runs: removed,
        more: removed == limit || more_ops || more_keys,
    })
}

/// Forgets operations as old as the history that goes: nobody asks for them any more. Whether there may be
/// more of them.
fn forget_ops(tx: &Tx<'_>, before: Timestamp) -> Result<bool> {
    let oldest = tx.all(sql::LIST_OLD_OPS, [OPS], |row| {
        Ok((row.int(0)?, row.at(1)?))
    })?;
    let old = oldest.iter().take_while(|(_, at)| *at < before);
    let (mut forgotten, mut last) = (0, None);
    for (n, _) in old {
        (forgotten, last) = (forgotten + 1, Some(*n));
    }
    if let Some(last) = last {
        tx.run(sql::DELETE_OPS, [last])?;
    }
    Ok(forgotten == OPS)
}

/// Hands the log on in its order, some events at a time: all of it, or what is about as young as
/// `since` and younger.
pub(super) fn log(
    read: &Read<'_>,
    since: Option<Timestamp>,
    mut take: impl FnMut(Vec<Event>) -> Result<()>,
) -> Result<()> {
    let next = |after: u64, n: u32| read.all(sql::LIST_EVENTS, (int(after), n), |row| row.event());
    let mut search = Search::new(since);
    while let Some(after) = search.probe() {
        search.found(next(after, 1)?.first());
    }
    let mut after = search.start();
    loop {
        let events = next(after, EVENTS_AT_ONCE)?;
        let Some(last) = events.last() else {
            return Ok(());
        };
        after = last.seq;
        take(events)?;
    }
}

pub(super) fn dump(read: &Read<'_>) -> Result<Dump> {
    let mut dump = rows(read)?;
    log(read, None, |events| {
        dump.events.extend(events);
        Ok(())
    })?;
    Ok(dump)
}

/// Everything but the log.
pub(super) fn rows(read: &Read<'_>) -> Result<Dump> {
    let mut duties = read.all(sql::LIST_DUTIES, [], |row| Ok(row.duty()?.duty))?;
    duties.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Dump {
        jobs: read.all(sql::DUMP_JOBS, [], |row| Ok(row.job()?.job))?,
        revisions: read.all(sql::DUMP_REVISIONS, [], |row| row.revision())?,
        calendars: read.all(sql::DUMP_CALENDARS, [], |row| {
            Ok((row.job_name(0)?, row.u32(2)?, row.text(3)?))
        })?,
        calendar_uses: read.all(sql::DUMP_CALENDAR_USES, [], |row| {
            Ok((row.job_name(0)?, JobUid(row.uuid(2)?), row.u32(3)?))
        })?,
        capacities: read.all(sql::DUMP_CAPACITIES, [], |row| row.capacity())?,
        capacity_uses: read.all(sql::DUMP_CAPACITY_USES, [], |row| {
            Ok((row.name(0)?, JobUid(row.uuid(1)?), row.u32(2)?))
        })?,
        holds: read.all(sql::DUMP_HOLDS, [], |row| row.hold())?,
        recalls: read.all(sql::DUMP_RECALLS, [], |row| row.recalled())?,
        namespaces: read.all(sql::DUMP_NAMESPACES, [], |row| row.namespace())?,
        runs: read.all(sql::DUMP_RUNS, [], |row| row.run())?,
        shards: read.all(sql::DUMP_SHARDS, [], |row| Ok(row.shard()?.shard))?,
        sessions: read.all(sql::DUMP_SESSIONS, [], |row| row.session())?,
        duties,
        backfills: read.all(sql::DUMP_BACKFILLS, [], |row| row.backfill())?,
        checks: read.all(sql::DUMP_CHECKS, [], |row| row.check())?,
        access_tokens: read.all(sql::DUMP_ACCESS_TOKENS, [], |row| row.access_token())?,
        users: read.all(sql::DUMP_ACCOUNTS, [], |row| kept_user::user(&row.text(0)?))?,
        decisions: read.all(sql::DUMP_DECISIONS, [], |row| {
            Ok((JobUid(row.uuid(0)?), row.decision(1)?))
        })?,
        events: Vec::new(),
    })
}
