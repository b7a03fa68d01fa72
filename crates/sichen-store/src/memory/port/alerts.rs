//! Alerts, and the notices of them that are to be sent.

use jiff::Timestamp;
use sichen_core::alert::Alert;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::model::Run;
use sichen_core::port::{AlertStore, Answer, Fence, Op, SaveAlerts};
use uuid::Uuid;

use super::super::{MemoryStore, alerts};

impl AlertStore for MemoryStore {
    fn list_alerts(&self) -> Answer<'_, Vec<Alert>> {
        self.read(|s, _| {
            let mut all: Vec<Alert> = s.alerts.values().cloned().collect();
            all.sort_by_key(Alert::name);
            all
        })
    }
    fn save_alerts(&self, op: Op, fence: Fence, save: SaveAlerts) -> Answer<'_, ()> {
        let saved = self.write(op, move |tx| alerts::save(tx, &fence, save));
        Box::pin(async move { saved.await? })
    }
    fn list_notices(&self, by: Timestamp, limit: u32) -> Answer<'_, Vec<Notice>> {
        self.read(move |s, _| alerts::due(s, by, limit))
    }
    fn count_notices(&self) -> Answer<'_, Vec<(String, u32)>> {
        self.read(|s, _| alerts::count(s))
    }
    fn end_notices(&self, op: Op, fence: Fence, tried: Vec<(Uuid, Tried)>) -> Answer<'_, ()> {
        bounded!(tried);
        let ended = self.write(op, move |tx| alerts::end(tx, &fence, tried));
        Box::pin(async move { ended.await? })
    }
    fn list_unsuccessful_runs(&self, since: Timestamp, limit: u32) -> Answer<'_, Vec<Run>> {
        self.read(move |s, _| alerts::unsuccessful(s, since, limit))
    }
}
