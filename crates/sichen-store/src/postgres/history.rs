//! Events and old runs.

use jiff::Timestamp;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, Occasion, RunId};
use sichen_core::model::{Decision, Dump, DutyKey, Run};
use sichen_core::port::{Error, EventFilter, Fence, Page, Removed};

use tokio::sync::mpsc;

use super::row::{at, int};
use super::tx::{Read, Result, Tx};
use super::{capped, jobs, keys, sql};
use crate::happened::old_term;
use crate::kept_user;
use crate::log::{EVENTS_AT_ONCE, Search};

/// Operations that one call forgets at most.
const OPS: u32 = 10_000;

pub(super) async fn list_events(
    read: &Read,
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
                .await
        }
        (Some(run), None) => {
            read.all(sql::LIST_EVENTS_OF_RUN, (after, limit, int(run.0)), |row| {
                row.event()
            })
            .await
        }
        (None, None) => {
            read.all(sql::LIST_EVENTS, (after, limit), |row| row.event())
                .await
        }
    }
}

pub(super) async fn list_ended(
    read: &Read,
    until: Timestamp,
    page: &Page<(Timestamp, RunId)>,
) -> Result<Vec<Run>> {
    let (ended, run) = page
        .after
        .map_or((i64::MIN, 0), |(t, run)| (at(t), int(run.0)));
    let params = |limit: u32| (ended, run, at(until), limit);
    read.sound_page(sql::LIST_ENDED_RUNS, capped(page), params, |row| row.run())
        .await
}

pub(super) async fn remove(
    tx: &mut Tx,
    fence: &Fence,
    before: Timestamp,
    limit: u32,
) -> Result<Removed> {
    if fence.key != DutyKey::Janitor || !tx.under(fence).await? {
        return Err(old_term(fence));
    }
    let mut old = tx
        .all(sql::LIST_REMOVABLE_RUNS, (at(before), limit), |row| {
            let occasion = row.text(2)?;
            let occasion = Occasion::parse(&occasion)
                .ok_or_else(|| Error::Corrupt(format!("{occasion:?} is no occasion")))?;
            Ok((
                RunId(row.u64(0)?),
                JobUid(row.uuid(1)?),
                occasion,
                row.text(3)?,
            ))
        })
        .await?;
    let found = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let ids: Vec<RunId> = old.iter().map(|(id, ..)| *id).collect();
    // Nothing opens or closes by it: the jobs, and the gates of their partitions, are left alone.
    tx.lock_run_rows(&ids).await?;
    tx.tell_time().await?;
    // One that was reopened before the lock was there stays.
    old.retain(|(id, ..)| {
        tx.kept(|kept| kept.runs.get(id).is_some_and(|run| run.state.is_closed()))
    });
    old.sort_by_key(|(id, ..)| *id);
    let removed = u32::try_from(old.len()).unwrap_or(u32::MAX);
    for (id, job, occasion, state) in old {
        tx.run(sql::DELETE_EVENTS, [int(id.0)]).await?;
        tx.run(sql::DELETE_SHARDS, [int(id.0)]).await?;
        tx.run(sql::DELETE_CHECKS, [int(id.0)]).await?;
        tx.run(sql::DELETE_RECALLS, [int(id.0)]).await?;
        tx.must(sql::DELETE_RUN, [int(id.0)]).await?;
        if let Some(at) = occasion.planned_at() {
            let decision = Decision::single(at, Decision::REMOVED, state);
            jobs::insert_decision(tx, job, &decision).await?;
        }
    }
    let more_ops = forget_ops(tx, before).await?;
    let more_keys = keys::forget(tx).await?;
    Ok(Removed {
        runs: removed,
        more: found == limit || more_ops || more_keys,
    })
}

/// Forgets operations as old as the history that goes: nobody asks for them any more. Whether there may be
/// more of them.
async fn forget_ops(tx: &Tx, before: Timestamp) -> Result<bool> {
    let oldest = tx
        .all(sql::LIST_OLD_OPS, [OPS], |row| {
            Ok((row.int(0)?, row.at(1)?))
        })
        .await?;
    let old = oldest.iter().take_while(|(_, at)| *at < before);
    let (mut forgotten, mut last) = (0, None);
    for (n, _) in old {
        (forgotten, last) = (forgotten + 1, Some(*n));
    }
    if let Some(last) = last {
        tx.run(sql::DELETE_OPS, [last]).await?;
    }
    Ok(forgotten == OPS)
}

/// Hands the log on in its order, some events at a time: all of it, or what is about as young as
/// `since` and younger.
pub(super) async fn log(
    read: &Read,
    since: Option<Timestamp>,
    to: &mpsc::Sender<Vec<Event>>,
) -> Result<()> {
    let mut search = Search::new(since);
    while let Some(after) = search.probe() {
        search.found(events_after(read, after, 1).await?.first());
    }
    let mut after = search.start();
    loop {
        let events = events_after(read, after, EVENTS_AT_ONCE).await?;
        let Some(last) = events.last() else {
            return Ok(());
        };
        after = last.seq;
        let taken = to.send(events).await;
        taken.map_err(|_| Error::Unavailable("nobody takes the log".to_owned()))?;
    }
}

async fn events_after(read: &Read, after: u64, n: u32) -> Result<Vec<Event>> {
    read.all(sql::LIST_EVENTS, (int(after), n), |row| row.event())
        .await
}

pub(super) async fn dump(read: &Read) -> Result<Dump> {
    let mut dump = rows(read).await?;
    let mut after = 0;
    loop {
        let events = events_after(read, after, EVENTS_AT_ONCE).await?;
        let Some(last) = events.last() else {
            return Ok(dump);
        };
        after = last.seq;
        dump.events.extend(events);
    }
}

/// Everything but the log.
pub(super) async fn rows(read: &Read) -> Result<Dump> {
    let mut duties = read
        .all(sql::LIST_DUTIES, (), |row| Ok(row.duty()?.duty))
        .await?;
    duties.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(Dump {
        jobs: read
            .all(sql::DUMP_JOBS, (), |row| Ok(row.job()?.job))
            .await?,
        revisions: read
            .all(sql::DUMP_REVISIONS, (), |row| row.revision())
            .await?,
        calendars: read
            .all(sql::DUMP_CALENDARS, (), |row| {
                Ok((row.job_name(0)?, row.u32(2)?, row.text(3)?))
            })
            .await?,
        calendar_uses: read
            .all(sql::DUMP_CALENDAR_USES, (), |row| {
                Ok((row.job_name(0)?, JobUid(row.uuid(2)?), row.u32(3)?))
            })
            .await?,
        capacities: read
            .all(sql::DUMP_CAPACITIES, (), |row| row.capacity())
            .await?,
        capacity_uses: read
            .all(sql::DUMP_CAPACITY_USES, (), |row| {
                Ok((row.name(0)?, JobUid(row.uuid(1)?), row.u32(2)?))
            })
            .await?,
        holds: read.all(sql::DUMP_HOLDS, (), |row| row.hold()).await?,
        recalls: read
            .all(sql::DUMP_RECALLS, (), |row| row.recalled())
            .await?,
        namespaces: read
            .all(sql::DUMP_NAMESPACES, (), |row| row.namespace())
            .await?,
        runs: read.all(sql::DUMP_RUNS, (), |row| row.run()).await?,
        shards: read
            .all(sql::DUMP_SHARDS, (), |row| Ok(row.shard()?.shard))
            .await?,
        sessions: read
            .all(sql::DUMP_SESSIONS, (), |row| row.session())
            .await?,
        duties,
        backfills: read
            .all(sql::DUMP_BACKFILLS, (), |row| row.backfill())
            .await?,
        checks: read.all(sql::DUMP_CHECKS, (), |row| row.check()).await?,
        access_tokens: read
            .all(sql::DUMP_ACCESS_TOKENS, (), |row| row.access_token())
            .await?,
        users: read
            .all(sql::DUMP_ACCOUNTS, (), |row| kept_user::user(&row.text(0)?))
            .await?,
        decisions: read
            .all(sql::DUMP_DECISIONS, (), |row| {
                Ok((JobUid(row.uuid(0)?), row.decision(1)?))
            })
            .await?,
        events: Vec::new(),
    })
}
