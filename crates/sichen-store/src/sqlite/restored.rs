//! A store that went back.

use sichen_core::event::{Entity, Kind};
use sichen_core::lifecycle::StopCause;
use sichen_core::port::Fence;
use sichen_core::restore::{Decided, How, KEY, Restore, Subject, Verdict};

use super::row::{at, int};
use super::tx::{Happened, Read, Result, Tx};
use super::{duties, jobs, runs, sql};

pub(super) fn get(read: &Read<'_>) -> Result<Option<Restore>> {
    let found = read.one(sql::GET_RESTORE, [], |row| row.restore())?;
    Ok(found.flatten())
}

pub(super) fn begin(tx: &mut Tx<'_>, known: u32) -> Result<Restore> {
    let newest = tx.one(sql::GET_NEWEST_EVENT, [], |row| {
        Ok((row.u64(0)?, row.at(1)?))
    })?;
    let before = get(tx)?;
    let epoch = tx.raise_epoch(known)?;
    let owned = tx.all(sql::LIST_DUTIES, [], |row| Ok(row.duty()?.duty))?;
    let owned = owned.into_iter().filter(|duty| duty.node.is_some());
    let fence = |duty: sichen_core::model::Duty| Fence {
        key: duty.key,
        term: duty.term,
    };
    duties::release(tx, &owned.map(fence).collect::<Vec<_>>())?;
    let restore = Restore::begun(epoch, tx.now, newest, before);
    let marks = (at(restore.at), at(restore.mark), int(restore.newest));
    tx.must(sql::BEGIN_RESTORE, marks)?;
    let happened = Happened {
        data: crate::happened::restored(&restore),
        ..Happened::new(Kind::StoreRestored, "", "")
    };
    tx.event(&Entity::Duty(KEY.to_owned()), 0, &happened)?;
    Ok(restore)
}

pub(super) fn decide(tx: &mut Tx<'_>, decided: Decided) -> Result<Verdict> {
    match get(tx)? {
        None => return Ok(Verdict::NothingToDecide),
        Some(restore) if restore.epoch != decided.epoch => return Ok(Verdict::Another),
        Some(_) => {}
    }
    let (data, how) = (decided.event_data(), decided.how);
    let (entity, state) = match decided.subject {
        Subject::Job(uid, step) => {
            let Some(row) = tx.job(uid)?.filter(|row| !row.deleted) else {
                return Ok(Verdict::Missing);
            };
            if let Some(step) = step
                && jobs::advance(tx, &[], step)?.is_none()
            {
                return Ok(Verdict::Conflict);
            }
            (Entity::Job(uid), jobs::word(row.job.paused))
        }
        Subject::Run(id) => {
            let run = tx.run_row(id)?;
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
                runs::request_stop(tx, None, id, StopCause::Cancel)?;
            }
            return Ok(Verdict::Recorded);
        }
        Subject::Rest => {
            tx.must(sql::END_RESTORE, [])?;
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
