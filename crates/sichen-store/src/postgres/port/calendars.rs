//! Calendars, in versions.

use sichen_core::ids::JobUid;
use sichen_core::model::{Calendar, CalendarUser};
use sichen_core::name::JobName;
use sichen_core::port::{Answer, CalendarDeleted, CalendarStore, CalendarVerdict, Op, Page};

use super::super::{PostgresStore, calendars, kept};

impl CalendarStore for PostgresStore {
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict> {
        write!(self, Some(op), [name, document], |tx| {
            tx.take_turn(kept::Turn::Calendar, name.name.as_str())
                .await?;
            tx.lock_calendar(&name).await?;
            tx.tell_time().await?;
            calendars::apply(tx, name, &document, expected).await
        })
    }
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>> {
        read!(self, [name], |read| calendars::get(read, &name, version)
            .await)
    }
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>> {
        read!(self, [page], |read| calendars::list(read, &page).await)
    }
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted> {
        write!(self, Some(op), [name], |tx| {
            tx.lock_calendar(&name).await?;
            tx.tell_time().await?;
            calendars::delete(tx, name).await
        })
    }
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>> {
        read!(self, [name], |read| calendars::users(
            read,
            name.as_ref(),
            &page
        )
        .await)
    }
}
