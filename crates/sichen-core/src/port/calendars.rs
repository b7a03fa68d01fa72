//! Calendars, in versions.

use super::{Answer, CalendarDeleted, CalendarVerdict, Op, Page};
use crate::ids::JobUid;
use crate::model::{Calendar, CalendarUser};
use crate::name::JobName;

/// Calendars, in versions. A part of [`Store`](super::Store).
pub trait CalendarStore: Send + Sync + 'static {
    /// Creates a calendar or writes its next version, if `expected` is its newest one (`None`: there
    /// is none). The jobs that use it go by their version until they are edited.
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict>;
    /// A calendar by name, in its newest version or in that of this number; a deleted one only by
    /// number.
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>>;
    /// Calendars by (namespace, name).
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>>;
    /// Deletes a calendar that no live job uses.
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted>;
    /// Live jobs that use a calendar, by uid after `page.after`; without a name, of any calendar,
    /// those alone whose version is not its newest one.
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>>;
}
