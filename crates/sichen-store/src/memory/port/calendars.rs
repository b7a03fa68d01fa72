//! Calendars, in versions.

use sichen_core::ids::JobUid;
use sichen_core::model::{Calendar, CalendarUser};
use sichen_core::name::JobName;
use sichen_core::port::{Answer, CalendarDeleted, CalendarStore, CalendarVerdict, Op, Page};

use super::super::{MemoryStore, calendars};

impl CalendarStore for MemoryStore {
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict> {
        self.write(op, move |tx| calendars::apply(tx, name, document, expected))
    }
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>> {
        self.read(move |s, _| calendars::get(s, &name, version))
    }
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>> {
        self.read(move |s, _| calendars::list(s, &page))
    }
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted> {
        self.write(op, move |tx| calendars::delete(tx, name))
    }
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>> {
        self.read(move |s, _| calendars::users(s, name.as_ref(), &page))
    }
}
