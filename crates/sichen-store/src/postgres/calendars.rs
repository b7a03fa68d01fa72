//! Calendars, their versions, and the jobs that use them.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::JobUid;
use sichen_core::model::{Calendar, CalendarUser};
use sichen_core::name::JobName;
use sichen_core::port::{CalendarDeleted, CalendarVerdict, Page};
use uuid::Uuid;

use super::row::{Row, at};
use super::tx::{Happened, Read, Result, Tx};
use super::{capped, sql};

/// Users that a refused deletion names.
const NAMED: u32 = 10;

fn key(name: &JobName) -> (&str, &str) {
    (name.namespace.as_str(), name.name.as_str())
}

fn calendar(row: Row<'_>) -> Result<Calendar> {
    Ok(Calendar {
        name: row.job_name(0)?,
        version: row.u32(2)?,
        document: row.text(3)?,
        changed_at: row.at(4)?,
    })
}

pub(super) async fn get(
    read: &Read,
    name: &JobName,
    version: Option<u32>,
) -> Result<Option<Calendar>> {
    let (namespace, short) = key(name);
    match version {
        None => {
            read.one(sql::GET_CALENDAR, (namespace, short), calendar)
                .await
        }
        Some(version) => {
            let params = (namespace, short, version);
            read.one(sql::GET_CALENDAR_VERSION, params, calendar).await
        }
    }
}

pub(super) async fn list(read: &Read, page: &Page<JobName>) -> Result<Vec<Calendar>> {
    let after = page.after.as_ref().map_or(("", ""), key);
    let params = (after.0, after.1, capped(page));
    read.all(sql::LIST_CALENDARS, params, calendar).await
}

/// The newest version of a calendar and whether it was deleted.
async fn row_of(read: &Read, name: &JobName) -> Result<Option<(u32, bool)>> {
    read.one(sql::GET_CALENDAR_ROW, key(name), |row| {
        Ok((row.u32(0)?, row.flag(1)?))
    })
    .await
}

fn newest(row: Option<(u32, bool)>) -> Option<u32> {
    row.filter(|(_, deleted)| !deleted)
        .map(|(version, _)| version)
}

pub(super) async fn apply(
    tx: &mut Tx,
    name: JobName,
    document: &str,
    expected: Option<u32>,
) -> Result<CalendarVerdict> {
    let row = row_of(tx, &name).await?;
    let current = newest(row);
    if current != expected {
        return Ok(CalendarVerdict::Conflict);
    }
    if let Some(found) = get(tx, &name, None).await?
        && found.document == document
    {
        return Ok(CalendarVerdict::Unchanged(found.version));
    }
    let from = match row {
        None => "",
        Some((_, true)) => "deleted",
        Some((_, false)) => "live",
    };
    let version = row.map_or(0, |(version, _)| version) + 1;
    let (namespace, short) = key(&name);
    let params = (namespace, short, version, false, document, at(tx.now));
    tx.must(sql::PUT_CALENDAR, params).await?;
    let params = (namespace, short, version, document, at(tx.now));
    tx.must(sql::INSERT_CALENDAR_VERSION, params).await?;
    let happened = Happened {
        data: serde_json::json!({ "version": version }),
        ..Happened::new(Kind::CalendarApplied, from, "live")
    };
    tx.event(&Entity::Calendar(name), version, &happened)?;
    Ok(match current {
        None => CalendarVerdict::Created(version),
        Some(_) => CalendarVerdict::Updated(version),
    })
}

pub(super) async fn delete(tx: &mut Tx, name: JobName) -> Result<CalendarDeleted> {
    let Some(version) = newest(row_of(tx, &name).await?) else {
        return Ok(CalendarDeleted::Missing);
    };
    let page = Page {
        after: None,
        limit: NAMED,
    };
    let users = users(tx, Some(&name), &page).await?;
    if !users.is_empty() {
        let names = users.into_iter().map(|user| user.job_name);
        return Ok(CalendarDeleted::Used(names.collect()));
    }
    let (namespace, short) = key(&name);
    let params = (namespace, short, version + 1, true, "", at(tx.now));
    tx.must(sql::PUT_CALENDAR, params).await?;
    let happened = Happened::new(Kind::CalendarDeleted, "live", "deleted");
    tx.event(&Entity::Calendar(name), version + 1, &happened)?;
    Ok(CalendarDeleted::Deleted)
}

pub(super) async fn users(
    read: &Read,
    name: Option<&JobName>,
    page: &Page<JobUid>,
) -> Result<Vec<CalendarUser>> {
    let after = page.after.map_or(Uuid::nil(), |after| after.0);
    let user = |row: Row<'_>| {
        Ok(CalendarUser {
            calendar: row.job_name(0)?,
            version: row.u32(2)?,
            newest: row.u32(3)?,
            job: JobUid(row.uuid(4)?),
            job_name: row.job_name(5)?,
        })
    };
    match name {
        Some(name) => {
            let (namespace, short) = key(name);
            let params = (namespace, short, after, capped(page));
            read.all(sql::LIST_CALENDAR_USERS, params, user).await
        }
        None => {
            read.all(sql::LIST_STALE_CALENDAR_USERS, (after, capped(page)), user)
                .await
        }
    }
}

/// Whether these are the newest versions of their calendars.
pub(super) async fn are_newest(read: &Read, uses: &[(JobName, u32)]) -> Result<bool> {
    for (name, version) in uses {
        if newest(row_of(read, name).await?) != Some(*version) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A job that went by no calendar before goes by these.
pub(super) async fn add_uses(tx: &Tx, job: JobUid, uses: &[(JobName, u32)]) -> Result<()> {
    for (name, version) in uses {
        let (namespace, short) = key(name);
        let params = (job.0, namespace, short, *version);
        tx.must(sql::INSERT_CALENDAR_USE, params).await?;
    }
    Ok(())
}

/// The job's present revision goes by these.
pub(super) async fn use_in(tx: &Tx, job: JobUid, uses: &[(JobName, u32)]) -> Result<()> {
    tx.run(sql::DELETE_CALENDAR_USES, [job.0]).await?;
    add_uses(tx, job, uses).await
}
