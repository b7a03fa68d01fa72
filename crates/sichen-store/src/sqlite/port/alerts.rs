//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use sichen_core::alert::Alert;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::model::Run;
use sichen_core::port::{AlertStore, Answer, Fence, Op, SaveAlerts};
use uuid::Uuid;

use super::super::{SqliteStore, alerts};

impl AlertStore for SqliteStore {
    fn list_alerts(&self) -> Answer<'_, Vec<Alert>> {
        self.read(alerts::list)
    }
    fn save_alerts(&self, op: Op, fence: Fence, save: SaveAlerts) -> Answer<'_, ()> {
        self.write(op, move |tx| alerts::save(tx, &fence, &save))
    }
    fn list_notices(&self, by: Timestamp, limit: u32) -> Answer<'_, Vec<Notice>> {
        self.read(move |r| alerts::due(r, by, limit))
    }
    fn count_notices(&self) -> Answer<'_, Vec<(String, u32)>> {
        self.read(alerts::count)
    }
    fn end_notices(&self, op: Op, fence: Fence, tried: Vec<(Uuid, Tried)>) -> Answer<'_, ()> {
        bounded!(tried);
        self.write(op, move |tx| alerts::end(tx, &fence, &tried))
    }
    fn list_unsuccessful_runs(&self, since: Timestamp, limit: u32) -> Answer<'_, Vec<Run>> {
        self.read(move |r| alerts::unsuccessful(r, since, limit))
    }
}
