//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use sichen_core::alert::Alert;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::model::Run;
use sichen_core::port::{AlertStore, Answer, Fence, Op, SaveAlerts};
use uuid::Uuid;

use super::super::{PostgresStore, alerts};

impl AlertStore for PostgresStore {
    fn list_alerts(&self) -> Answer<'_, Vec<Alert>> {
        read!(self, [], |read| alerts::list(read).await)
    }
    fn save_alerts(&self, op: Op, fence: Fence, save: SaveAlerts) -> Answer<'_, ()> {
        write!(self, Some(op), [fence, save], |tx| {
            alerts::save(tx, &fence, &save).await
        })
    }
    fn list_notices(&self, by: Timestamp, limit: u32) -> Answer<'_, Vec<Notice>> {
        read!(self, [], |read| alerts::due(read, by, limit).await)
    }
    fn count_notices(&self) -> Answer<'_, Vec<(String, u32)>> {
        read!(self, [], |read| alerts::count(read).await)
    }
    fn end_notices(&self, op: Op, fence: Fence, tried: Vec<(Uuid, Tried)>) -> Answer<'_, ()> {
        bounded!(tried);
        write!(self, Some(op), [fence, tried], |tx| {
            alerts::end(tx, &fence, &tried).await
        })
    }
    fn list_unsuccessful_runs(&self, since: Timestamp, limit: u32) -> Answer<'_, Vec<Run>> {
        read!(self, [], |read| alerts::unsuccessful(read, since, limit)
            .await)
    }
}
