//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::alert::{Alert, name_of};
use sichen_core::lifecycle::run::STARTING_DEADLINE;
use sichen_core::model::{DutyKey, Run};
use sichen_core::port::{Fence, SaveAlerts};
use uuid::Uuid;

use super::row::at;
use super::sql;
use super::tx::{Read, Result, Tx};
use crate::happened::old_term;
use crate::kept_alert;

async fn under(tx: &mut Tx, fence: &Fence) -> Result<()> {
    tx.lock_duties(vec![fence.key.text()], true).await?;
    tx.tell_time().await?;
    if fence.key != DutyKey::Alerts || !tx.under(fence).await? {
        return Err(old_term(fence));
    }
    Ok(())
}

pub(super) async fn list(read: &Read) -> Result<Vec<Alert>> {
    read.sound(sql::LIST_ALERTS, (), |row| kept_alert::alert(&row.text(0)?))
        .await
}

pub(super) async fn save(tx: &mut Tx, fence: &Fence, save: &SaveAlerts) -> Result<()> {
    under(tx, fence).await?;
    for alert in &save.keep {
        let params = (alert.name(), kept_alert::document(alert));
        tx.must(sql::PUT_ALERT, params).await?;
    }
    for key in &save.forget {
        tx.run(sql::DELETE_ALERT, [name_of(key)]).await?;
    }
    for notice in &save.notices {
        let params = (
            notice.id,
            notice.receiver.as_str(),
            notice.body.as_str(),
            at(notice.created_at),
            at(notice.due_at),
            i64::from(notice.tries),
        );
        tx.run(sql::INSERT_NOTICE, params).await?;
    }
    Ok(())
}

pub(super) async fn due(read: &Read, by: Timestamp, limit: u32) -> Result<Vec<Notice>> {
    read.all(sql::LIST_NOTICES, (at(by), limit), |row| row.notice())
        .await
}

pub(super) async fn count(read: &Read) -> Result<Vec<(String, u32)>> {
    read.all(sql::COUNT_NOTICES, (), |row| {
        Ok((row.text(0)?, row.u32(1)?))
    })
    .await
}

pub(super) async fn end(tx: &mut Tx, fence: &Fence, tried: &[(Uuid, Tried)]) -> Result<()> {
    under(tx, fence).await?;
    for (id, tried) in tried {
        match tried {
            Tried::Ended => tx.run(sql::DELETE_NOTICE, [*id]).await?,
            Tried::Again(due) => tx.run(sql::PUT_OFF_NOTICE, (*id, at(*due))).await?,
        };
    }
    Ok(())
}

pub(super) async fn unsuccessful(read: &Read, since: Timestamp, limit: u32) -> Result<Vec<Run>> {
    let params = (at(since), limit, STARTING_DEADLINE);
    read.sound(sql::LIST_UNSUCCESSFUL_RUNS, params, |row| row.run())
        .await
}
