//! Read calendars of the versions that documents name.
//!
//! # Invariant
//! A version never changes, so what is kept is never wrong; at most [`LIMIT`] are kept.
//!
//! # Not here
//! Which version a document names (pinned when it was applied).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_core::document::{CalendarDocument, Calendars, Document};
use sichen_core::model;
use sichen_core::name::JobName;
use sichen_core::port::{Error, Store};
use sichen_core::schedule::calendar::Calendar;

/// Calendars kept in memory.
const LIMIT: usize = 1_000;

type Key = (JobName, u32);

/// A bounded memory of calendars.
#[derive(Debug, Default)]
pub struct KeptCalendars(Mutex<BTreeMap<Key, Arc<Calendar>>>);

impl KeptCalendars {
    /// The calendars that `document` names with a version. One that is not there is left out: its
    /// schedules then can't be read, and say so.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a stored calendar can't be read; else as the store.
    pub async fn of(&self, store: &dyn Store, document: &Document) -> Result<Calendars, Error> {
        let mut calendars = Calendars::default();
        for (name, (_, version)) in document.calendars() {
            let Some(version) = version else { continue };
            let key = (name.clone(), version);
            let kept = self.lock().get(&key).cloned();
            let calendar = match kept {
                Some(calendar) => calendar,
                None => match store.get_calendar(name.clone(), Some(version)).await? {
                    Some(stored) => self.keep(key, Arc::new(read(&stored)?)),
                    None => continue,
                },
            };
            calendars.add(name, calendar);
        }
        Ok(calendars)
    }

    fn keep(&self, key: Key, calendar: Arc<Calendar>) -> Arc<Calendar> {
        let mut kept = self.lock();
        if kept.len() >= LIMIT {
            kept.clear();
        }
        kept.insert(key, calendar.clone());
        calendar
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Arc<Calendar>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The document of a stored calendar.
///
/// # Errors
/// [`Error::Corrupt`] if it makes no sense.
pub fn document(stored: &model::Calendar) -> Result<CalendarDocument, Error> {
    serde_json::from_str(&stored.document).map_err(|e| corrupt(stored, &e.to_string()))
}

/// The rules of a stored calendar.
///
/// # Errors
/// As [`document`].
pub fn read(stored: &model::Calendar) -> Result<Calendar, Error> {
    document(stored)?
        .calendar(stored.version)
        .map_err(|problems| {
            let lines = problems
                .iter()
                .map(|p| format!("{}: {}", p.path, p.message));
            corrupt(stored, &lines.collect::<Vec<_>>().join("; "))
        })
}

fn corrupt(stored: &model::Calendar, why: &str) -> Error {
    let model::Calendar { name, version, .. } = stored;
    Error::Corrupt(format!("calendar {name}, version {version}: {why}"))
}
