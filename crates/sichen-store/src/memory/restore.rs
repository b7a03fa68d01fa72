//! A store that went back.

use sichen_core::epoch;
use sichen_core::event::{Entity, Kind};
use sichen_core::lifecycle::StopCause;
use sichen_core::port::Fence;
use sichen_core::restore::{Decided, How, KEY, Restore, Subject, Verdict};

use super::state::{Happened, Tx};
use super::{duties, jobs, runs};

pub(super) fn begin(tx: &mut Tx<'_>, known: u32) -> Restore {
    let newest = tx.state.events.last().map(|event| (event.seq, event.at));
    tx.state.epoch = epoch::after(tx.state.epoch.max(known), tx.now);
    tx.state.last_id += epoch::NUMBERS_LEFT_OUT;
    tx.state.last_event += epoch::NUMBERS_LEFT_OUT;
    let owned = tx.state.duties.values().map(|row| &row.duty);
    let owned = owned.filter(|duty| duty.node.is_some());
    let mut fences: Vec<Fence> = owned
        .map(|duty| Fence {
            key: duty.key.clone(),
            term: duty.term,
        })
        .collect();
    fences.sort_by_key(|fence| fence.key.text());
    duties::release(tx, &fences);
    let restore = Restore::begun(tx.state.epoch, tx.now, newest, tx.state.restore);
    tx.state.restore = Some(restore);
    let happened = Happened {
        data: crate::happened::restored(&restore),
        ..Happened::new(Kind::StoreRestored, "", "")
    };
    tx.event(Entity::Duty(KEY.to_owned()), 0, happened);
    restore
}

pub(super) fn decide(tx: &mut Tx<'_>, decided: Decided) -> Verdict {
    match tx.state.restore {
        None => return Verdict::NothingToDecide,
        Some(restore) if restore.epoch != decided.epoch => return Verdict::Another,
        Some(_) => {}
    }
    let (data, how) = (decided.event_data(), decided.how);
    let (entity, state) = match decided.subject {
        Subject::Job(uid, step) => {
            let live = tx.state.jobs.get(&uid).filter(|row| !row.deleted);
            let Some(word) = live.map(|row| jobs::word(&row.job)) else {
                return Verdict::Missing;
            };
            if step.is_some_and(|step| jobs::advance(tx, &[], step).is_none()) {
                return Verdict::Conflict;
            }
            (Entity::Job(uid), word)
        }
        Subject::Run(id) => {
            let run = tx.state.runs.get(&id);
            let open = run.filter(|run| !run.state.is_closed() && run.stop.is_none());
            let Some(state) = open.map(|run| run.state) else {
                return Verdict::Missing;
            };
            let happened = Happened {
                cause: how.word(),
                data,
                ..Happened::new(Kind::RestoreDecided, state.word(), state.word())
            };
            tx.event(Entity::Run(id), 0, happened);
            if how != How::Again {
                runs::request_stop(tx, None, id, StopCause::Cancel);
            }
            return Verdict::Recorded;
        }
        Subject::Rest => {
            tx.state.restore = None;
            (Entity::Duty(KEY.to_owned()), "")
        }
    };
    let happened = Happened {
        cause: how.word(),
        data,
        ..Happened::new(Kind::RestoreDecided, state, state)
    };
    tx.event(entity, 0, happened);
    Verdict::Recorded
}
