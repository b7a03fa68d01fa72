//! A store that went back.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::OpId;
use sichen_core::lifecycle::StopCause;
use sichen_core::port::Fence;
use sichen_core::restore::{Decided, How, KEY, Restore, Subject, Verdict};
use uuid::Uuid;

use super::row::{Row, at, int};
use super::tx::{Happened, Read, Result, Tx};
use super::whereabouts::{Place, Whereabouts};
use super::{duties, jobs, runs, sql};

pub(super) async fn get(read: &Read) -> Result<Option<Restore>> {
    let found = read.one(sql::GET_RESTORE, (), |row| row.restore()).await?;
    Ok(found.flatten())
}

/// The texts of all duties.
pub(super) async fn duties(read: &Read) -> Result<Vec<String>> {
    let text = |row: Row<'_>| Ok(row.duty()?.duty.key.text());
    read.all(sql::LIST_DUTIES, (), text).await
}

pub(super) async fn begin(tx: &mut Tx, known: u32) -> Result<Restore> {
    let newest = |row: Row<'_>| Ok((row.u64(0)?, row.at(1)?));
    let newest = tx.one(sql::GET_NEWEST_EVENT, (), newest).await?;
    let before = get(tx).await?;
    let epoch = tx.raise_epoch(known).await?;
    let owned = tx
        .all(sql::LIST_DUTIES, (), |row| Ok(row.duty()?.duty))
        .await?;
    let owned = owned.into_iter().filter(|duty| duty.node.is_some());
    let fence = |duty: sichen_core::model::Duty| Fence {
        key: duty.key,
        term: duty.term,
    };
    duties::release(tx, &owned.map(fence).collect::<Vec<_>>()).await?;
    let restore = Restore::begun(epoch, tx.now, newest, before);
    let marks = (at(restore.at), at(restore.mark), int(restore.newest));
    tx.must(sql::BEGIN_RESTORE, marks).await?;
    let happened = Happened {
        data: crate::happened::restored(&restore),
        ..Happened::new(Kind::StoreRestored, "", "")
    };
    tx.event(&Entity::Duty(KEY.to_owned()), 0, &happened)?;
    Ok(restore)
}

pub(super) async fn decide(tx: &mut Tx, decided: Decided) -> Result<Verdict> {
    match get(tx).await? {
        None => return Ok(Verdict::NothingToDecide),
        Some(restore) if restore.epoch != decided.epoch => return Ok(Verdict::Another),
        Some(_) => {}
    }
    let (data, how) = (decided.event_data(), decided.how);
    let (entity, state) = match decided.subject {
        Subject::Job(uid, step) => {
            let Some(row) = tx.job(uid).await?.filter(|row| !row.deleted) else {
                return Ok(Verdict::Missing);
            };
            if let Some(step) = step
                && jobs::advance(tx, &[], step).await?.is_none()
            {
                return Ok(Verdict::Conflict);
            }
            (Entity::Job(uid), jobs::word(row.job.paused))
        }
        Subject::Run(id) => {
            let run = tx.run_row(id).await?;
            let open = run.filter(|run| !run.state.is_closed() && run.stop.is_none());
            let Some(run) = open else {
                return Ok(Verdict::Missing);
            };
            let state = run.state.word();
            let happened = Happened {
                cause: how.word(),
                data,
                ..Happened::new(Kind::RestoreDecided, state, state)
            };
            tx.event(&Entity::Run(id), 0, &happened)?;
            if how != How::Again {
                runs::request_stop(tx, None, id, StopCause::Cancel).await?;
            }
            return Ok(Verdict::Recorded);
        }
        Subject::Rest => {
            tx.must(sql::END_RESTORE, ()).await?;
            (Entity::Duty(KEY.to_owned()), "")
        }
    };
    let happened = Happened {
        cause: how.word(),
        data,
        ..Happened::new(Kind::RestoreDecided, state, state)
    };
    tx.event(&entity, 0, &happened)?;
    Ok(Verdict::Recorded)
}

/// Where the database is now, and where it was when it was last seen.
pub(super) async fn places(read: &Read) -> Result<(Option<Place>, Option<Place>)> {
    let found = read.one(sql::GET_PLACE, (), |row| {
        let place = |first: usize| -> Result<Option<Place>> {
            let (place, timeline) = (row.maybe(first, Row::text)?, row.opt_u64(first + 1)?);
            let both = place.zip(timeline);
            Ok(both.map(|(place, timeline)| Place { place, timeline }))
        };
        Ok((place(0)?, place(2)?))
    });
    Ok(found.await?.unwrap_or_default())
}

/// Takes note of where the database is, and answers it. In another place it can only be a copy, of whatever moment:
/// that begins a restore. On a later timeline a standby took over, mostly with all of it: the epoch is raised, so
/// that no token is given twice should the newest be lost. Where something of what was `promised` to this process
/// is missing, it surely is: that begins a restore too, whoever was here first.
pub(super) async fn settle(tx: &mut Tx, promised: &Whereabouts) -> Result<Option<Place>> {
    let (Some(now), before) = places(tx).await? else {
        return Ok(None);
    };
    let promised = promised.promises(tx.now);
    let kept = tx.count(sql::COUNT_OPS, [uuids(&promised)]).await?;
    let lost = promised.len().saturating_sub(kept as usize);
    match &before {
        Some(before) if before.place != now.place => {
            let restore = begin(tx, 0).await?;
            tracing::error!(
                mark = %restore.mark,
                epoch = restore.epoch,
                "SC3007: the database was copied here, from a dump or from another installation: nothing fires or is \
                 granted until it is decided what becomes of the time since the copy (sichen restore show)"
            );
        }
        _ if lost > 0 && get(tx).await?.is_none() => {
            let restore = begin(tx, 0).await?;
            tracing::error!(
                mark = %restore.mark,
                epoch = restore.epoch,
                lost,
                "SC3013: the database does not have what it acknowledged: a standby that lagged took over, or it was \
                 recovered to a point in time; nothing fires or is granted until it is decided what becomes of the \
                 time since (sichen restore show)"
            );
        }
        Some(before) if *before != now => {
            let epoch = tx.raise_epoch(0).await?;
            tracing::warn!(
                epoch,
                from = before.timeline,
                to = now.timeline,
                "SC3008: the database is on another timeline: a standby took over, or it was recovered to a point \
                 in time; after the latter run sichen restore begin"
            );
        }
        Some(_) | None => {}
    }
    if before.as_ref() != Some(&now) {
        let timeline = int(now.timeline);
        tx.must(sql::PUT_PLACE, (now.place.clone(), timeline))
            .await?;
    }
    Ok(Some(now))
}

fn uuids(ops: &[OpId]) -> Vec<Uuid> {
    ops.iter().map(|op| op.0).collect()
}
