//! Calendars, their versions, and the jobs that use them.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::JobUid;
use sichen_core::model::{Calendar, CalendarUser};
use sichen_core::name::JobName;
use sichen_core::port::{CalendarDeleted, CalendarVerdict, Page};

use super::capped;
use super::state::{CalendarRow, Happened, State, Tx};

/// Users that a refused deletion names.
const NAMED: usize = 10;

fn newest(row: &CalendarRow) -> Option<u32> {
    (!row.deleted).then_some(row.version)
}

pub(super) fn get(state: &State, name: &JobName, version: Option<u32>) -> Option<Calendar> {
    let row = state.calendars.get(name)?;
    let version = version.or_else(|| newest(row))?;
    let (document, changed_at) = row.versions.get(&version)?;
    Some(Calendar {
        name: name.clone(),
        version,
        document: document.clone(),
        changed_at: *changed_at,
    })
}

pub(super) fn list(state: &State, page: &Page<JobName>) -> Vec<Calendar> {
    let after = |name: &JobName| page.after.as_ref().is_none_or(|after| name > after);
    let names = state.calendars.keys().filter(|name| after(name));
    names
        .filter_map(|name| get(state, name, None))
        .take(capped(page))
        .collect()
}

pub(super) fn apply(
    tx: &mut Tx<'_>,
    name: JobName,
    document: String,
    expected: Option<u32>,
) -> CalendarVerdict {
    let row = tx.state.calendars.get(&name);
    let current = row.and_then(newest);
    if current != expected {
        return CalendarVerdict::Conflict;
    }
    if let (Some(version), Some(row)) = (current, row)
        && row
            .versions
            .get(&version)
            .is_some_and(|(old, _)| *old == document)
    {
        return CalendarVerdict::Unchanged(version);
    }
    let from = match row {
        None => "",
        Some(row) if row.deleted => "deleted",
        Some(_) => "live",
    };
    let version = row.map_or(0, |row| row.version) + 1;
    let now = tx.now;
    let row = tx.state.calendars.entry(name.clone());
    let row = row.or_insert_with(|| CalendarRow {
        version,
        deleted: false,
        versions: [].into(),
    });
    (row.version, row.deleted) = (version, false);
    row.versions.insert(version, (document, now));
    let happened = Happened {
        data: serde_json::json!({ "version": version }),
        ..Happened::new(Kind::CalendarApplied, from, "live")
    };
    tx.event(Entity::Calendar(name), version, happened);
    match current {
        None => CalendarVerdict::Created(version),
        Some(_) => CalendarVerdict::Updated(version),
    }
}

pub(super) fn delete(tx: &mut Tx<'_>, name: JobName) -> CalendarDeleted {
    let page = Page {
        after: None,
        limit: NAMED as u32,
    };
    let users = users(tx.state, Some(&name), &page);
    let Some(row) = tx.state.calendars.get_mut(&name).filter(|r| !r.deleted) else {
        return CalendarDeleted::Missing;
    };
    if !users.is_empty() {
        return CalendarDeleted::Used(users.into_iter().map(|user| user.job_name).collect());
    }
    row.version += 1;
    row.deleted = true;
    let version = row.version;
    let happened = Happened::new(Kind::CalendarDeleted, "live", "deleted");
    tx.event(Entity::Calendar(name), version, happened);
    CalendarDeleted::Deleted
}

pub(super) fn users(
    state: &State,
    name: Option<&JobName>,
    page: &Page<JobUid>,
) -> Vec<CalendarUser> {
    let wanted = state
        .calendar_uses
        .iter()
        .filter_map(|((calendar, job), version)| {
            let newest = state.calendars.get(calendar)?.version;
            let wanted = match name {
                Some(name) => calendar == name,
                None => *version < newest,
            };
            let row = state.jobs.get(job)?;
            let after = page.after.is_none_or(|after| *job > after);
            (wanted && after).then(|| CalendarUser {
                calendar: calendar.clone(),
                version: *version,
                newest,
                job: *job,
                job_name: row.job.name.clone(),
            })
        });
    let mut users: Vec<CalendarUser> = wanted.collect();
    users.sort_by(|a, b| (a.job, &a.calendar).cmp(&(b.job, &b.calendar)));
    users.truncate(capped(page));
    users
}

/// Whether these are the newest versions of their calendars.
pub(super) fn are_newest(state: &State, uses: &[(JobName, u32)]) -> bool {
    let newest_of = |name| state.calendars.get(name).and_then(newest);
    uses.iter()
        .all(|(name, version)| newest_of(name) == Some(*version))
}

/// The job's present revision goes by these.
pub(super) fn use_in(tx: &mut Tx<'_>, job: JobUid, uses: Vec<(JobName, u32)>) {
    tx.state.calendar_uses.retain(|(_, uid), _| *uid != job);
    let uses = uses
        .into_iter()
        .map(|(name, version)| ((name, job), version));
    tx.state.calendar_uses.extend(uses);
}
