//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::alert::{Alert, name_of};
use sichen_core::lifecycle::run::STARTING_DEADLINE;
use sichen_core::model::{DutyKey, Run};
use sichen_core::port::{Fence, SaveAlerts};
use uuid::Uuid;

use super::row::{at, blob};
use super::sql;
use super::tx::{Read, Result, Tx};
use crate::happened::old_term;
use crate::kept_alert;

fn under(tx: &mut Tx<'_>, fence: &Fence) -> Result<()> {
    if fence.key != DutyKey::Alerts || !tx.under(fence)? {
        return Err(old_term(fence));
    }
    Ok(())
}

pub(super) fn list(read: &Read<'_>) -> Result<Vec<Alert>> {
    read.sound(sql::LIST_ALERTS, [], |row| kept_alert::alert(&row.text(0)?))
}

pub(super) fn save(tx: &mut Tx<'_>, fence: &Fence, save: &SaveAlerts) -> Result<()> {
    under(tx, fence)?;
    for alert in &save.keep {
        let params = (alert.name(), kept_alert::document(alert));
        tx.must(sql::PUT_ALERT, params)?;
    }
    for key in &save.forget {
        tx.run(sql::DELETE_ALERT, [name_of(key)])?;
    }
    for notice in &save.notices {
        let params = (
            blob(notice.id),
            notice.receiver.as_str(),
            notice.body.as_str(),
            at(notice.created_at),
            at(notice.due_at),
            notice.tries,
        );
        tx.run(sql::INSERT_NOTICE, params)?;
    }
    Ok(())
}

pub(super) fn due(read: &Read<'_>, by: Timestamp, limit: u32) -> Result<Vec<Notice>> {
    read.all(sql::LIST_NOTICES, (at(by), limit), |row| row.notice())
}

pub(super) fn count(read: &Read<'_>) -> Result<Vec<(String, u32)>> {
    read.all(sql::COUNT_NOTICES, [], |row| {
        Ok((row.text(0)?, row.u32(1)?))
    })
}

pub(super) fn end(tx: &mut Tx<'_>, fence: &Fence, tried: &[(Uuid, Tried)]) -> Result<()> {
    under(tx, fence)?;
    for (id, tried) in tried {
        match tried {
            Tried::Ended => tx.run(sql::DELETE_NOTICE, [blob(*id)])?,
            Tried::Again(due) => tx.run(sql::PUT_OFF_NOTICE, (blob(*id), at(*due)))?,
        };
    }
    Ok(())
}

pub(super) fn unsuccessful(read: &Read<'_>, since: Timestamp, limit: u32) -> Result<Vec<Run>> {
    let params = (at(since), limit, STARTING_DEADLINE);
    read.sound(sql::LIST_UNSUCCESSFUL_RUNS, params, |row| row.run())
}
