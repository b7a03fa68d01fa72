//! Calendars: applied, compared, deleted, and the jobs that use them brought to the newest version.
//!
//! # Invariants
//! - A calendar's change is one transaction; after it each job that uses the calendar is edited in
//!   the ordinary way, which closes its old revision's instants at that commit. Until then the job
//!   goes by the version that its revision names, so nothing is decided by two versions.
//! - A job that was not reached (the node died, the job was busy) is found by the version it names:
//!   [`Control::complete_calendars`] and the next apply of the calendar edit it.
//!
//! # Not here
//! What a calendar does to times (`sichen_core::schedule`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::document::{CalendarDocument, Calendars, Document, Problem, Timing};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::{Calendar, CalendarUser};
use sichen_core::name::{JobName, nearest};
use sichen_core::port::{self, CalendarDeleted, CalendarVerdict, Page};

use super::{ATTEMPTS, Applied, Change, Control, Error};
use crate::calendars;

/// Users looked at in one go.
const USERS: u32 = 200;
/// Jobs that one apply brings to the new version; the duty does the rest.
const MAX_BROUGHT: usize = 500;
/// How far ahead a comparison looks.
const AHEAD: SignedDuration = SignedDuration::from_hours(24 * 400);
/// Instants of one job that a comparison walks.
const MAX_WALKED: usize = 2_000;
/// Instants of one job that a comparison names, on either side.
const MAX_NAMED: usize = 50;
/// Jobs that a comparison looks at.
const MAX_COMPARED: usize = 1_000;

/// A job's document with its calendars in their newest versions.
#[derive(Debug)]
pub(super) struct Pinned {
    pub document: Document,
    pub calendars: Calendars,
    pub uses: Vec<(JobName, u32)>,
}

/// The answer to an apply of a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedCalendar {
    /// Its newest version.
    pub version: u32,
    /// What was done.
    pub change: Change,
    /// Jobs that were brought to this version, with their new revisions.
    pub jobs: Vec<(JobName, Revision)>,
    /// Jobs that were not, and why: they are tried again until they are.
    pub left: Vec<Left>,
    /// Whether there are more jobs than one call brings over.
    pub more: bool,
}

/// A job that still goes by an older version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The job.
    pub job: JobName,
    /// Why.
    pub why: String,
}

/// What another version of a calendar does to a job's coming instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The job.
    pub job: JobName,
    /// Zone of the job.
    pub time_zone: String,
    /// Instants that it would no longer have, the first of them.
    pub gone: Vec<Timestamp>,
    /// Instants that it would have besides, the first of them.
    pub new: Vec<Timestamp>,
    /// Up to where it was looked.
    pub through: Timestamp,
    /// Whether there are more than are named here.
    pub more: bool,
}

impl Control {
    /// The document with its calendars in their newest versions.
    pub(super) async fn pin(&self, document: &Document) -> Result<Pinned, Error> {
        let mut pinned = Pinned {
            document: document.clone(),
            calendars: Calendars::default(),
            uses: Vec::new(),
        };
        if !document.has_calendars() {
            return Ok(pinned);
        }
        let mut newest = BTreeMap::new();
        let mut missing = false;
        for (name, _) in document.calendars() {
            match self.context.store.get_calendar(name.clone(), None).await? {
                Some(stored) => {
                    pinned.uses.push((name.clone(), stored.version));
                    newest.insert(name.clone(), stored.version);
                    pinned
                        .calendars
                        .add(name, Arc::new(calendars::read(&stored)?));
                }
                None => missing = true,
            }
        }
        let known = if missing {
            self.calendars(Page {
                after: None,
                limit: port::MAX_PAGE,
            })
            .await?
        } else {
            Vec::new()
        };
        let unknown = |name: &JobName| {
            let hint = near(name, &known);
            let hint = if hint.is_empty() {
                "; apply it first"
            } else {
                &hint
            };
            format!("SC1044: there is no calendar `{name}`{hint}")
        };
        pinned.document = document.pinned(&newest, unknown).map_err(Error::Invalid)?;
        Ok(pinned)
    }

    /// Creates a calendar, or makes the document its next version and brings the jobs that use it
    /// to that version.
    ///
    /// The same document again changes nothing but jobs that still go by an older version.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem, also where a job that uses it could not go by it;
    /// [`Error::Contended`]; the store's.
    pub async fn apply_calendar(
        &self,
        actor: &str,
        document: &CalendarDocument,
    ) -> Result<AppliedCalendar, Error> {
        let problems = document.check();
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let name = document.calendar_name();
        let name = name.map_err(|e| Error::Refused(format!("SC1001: {e}")))?;
        let text = serde_json::to_string(document)
            .map_err(|e| Error::Refused(format!("SC1015: the document can't be stored: {e}")))?;
        let store = &self.context.store;
        for _ in 0..ATTEMPTS {
            let existing = store.get_calendar(name.clone(), None).await?;
            let expected = existing.as_ref().map(|stored| stored.version);
            if existing.is_some_and(|stored| stored.document != text) {
                self.compare_calendar(document).await?;
            }
            let op = self.context.op(actor);
            let applied = store.apply_calendar(op, name.clone(), text.clone(), expected);
            let (version, change) = match applied.await? {
                CalendarVerdict::Created(version) => (version, Change::Created),
                CalendarVerdict::Updated(version) => (version, Change::Updated),
                CalendarVerdict::Unchanged(version) => (version, Change::Unchanged),
                CalendarVerdict::Conflict => continue,
            };
            let mut applied = AppliedCalendar {
                version,
                change,
                jobs: Vec::new(),
                left: Vec::new(),
                more: false,
            };
            self.bring_users(actor, &name, &mut applied).await?;
            return Ok(applied);
        }
        Err(Error::Contended(format!("calendar {name}")))
    }

    /// Edits jobs that go by an older version of the calendar, up to [`MAX_BROUGHT`] of them.
    async fn bring_users(
        &self,
        actor: &str,
        name: &JobName,
        applied: &mut AppliedCalendar,
    ) -> Result<(), Error> {
        let mut page = Page {
            after: None,
            limit: USERS,
        };
        loop {
            let store = &self.context.store;
            let users = store.list_calendar_users(Some(name.clone()), page).await?;
            for user in users.iter().filter(|user| user.version < user.newest) {
                if applied.jobs.len() + applied.left.len() == MAX_BROUGHT {
                    applied.more = true;
                    return Ok(());
                }
                match self.bring(actor, user).await {
                    Ok(Some(done)) => applied.jobs.push((user.job_name.clone(), done.revision)),
                    Ok(None) => {}
                    // Nothing is lost: the duty goes on where this stops.
                    Err(Error::Store(error)) if error.is_retryable() => return Err(error.into()),
                    Err(error) => applied.left.push(Left {
                        job: user.job_name.clone(),
                        why: error.to_string(),
                    }),
                }
            }
            match users.last().filter(|_| users.len() == USERS as usize) {
                Some(last) => page.after = Some(last.job),
                None => return Ok(()),
            }
        }
    }

    /// Brings one job to the newest versions of its calendars; `None` if it is there, or gone.
    async fn bring(&self, actor: &str, user: &CalendarUser) -> Result<Option<Applied>, Error> {
        let store = &self.context.store;
        for _ in 0..ATTEMPTS {
            let job = store.get_job(user.job_name.clone()).await?;
            let Some(job) = job.filter(|job| job.uid == user.job) else {
                return Ok(None);
            };
            let document: Document = serde_json::from_str(&job.document)
                .map_err(|e| port::Error::Corrupt(format!("job {}: {e}", job.uid)))?;
            let pinned = self.pin(&document).await?;
            if pinned.document == document {
                return Ok(None);
            }
            let cause = cause(&document, &pinned);
            let name = user.job_name.clone();
            let applied = self.try_apply(actor, &pinned, &name, Some(job), cause);
            if let Some(applied) = applied.await? {
                return Ok(Some(applied));
            }
        }
        Err(Error::Contended(format!("job {}", user.job_name)))
    }

    /// Edits jobs that go by an older version of a calendar than its newest: those that an apply
    /// did not reach. How many were edited.
    ///
    /// # Errors
    /// The store's; what was edited before stays.
    pub async fn complete_calendars(&self, actor: &str) -> Result<usize, Error> {
        let mut page = Page {
            after: None,
            limit: USERS,
        };
        let mut edited = 0;
        loop {
            let users = self.context.store.list_calendar_users(None, page).await?;
            for user in &users {
                match self.bring(actor, user).await {
                    Ok(applied) => edited += usize::from(applied.is_some()),
                    Err(Error::Store(error)) if error.is_retryable() => return Err(error.into()),
                    Err(error) => {
                        let CalendarUser {
                            calendar, version, ..
                        } = user;
                        tracing::error!(
                            job = %user.job_name, %calendar, version, %error,
                            "SC4012: the job still goes by an older version of the calendar"
                        );
                    }
                }
            }
            match users.last().filter(|_| users.len() == USERS as usize) {
                Some(last) => page.after = Some(last.job),
                None => return Ok(edited),
            }
        }
    }

    /// What applying the calendar would do to the coming instants of the jobs that use it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a job could not go by it; the store's.
    pub async fn compare_calendar(
        &self,
        document: &CalendarDocument,
    ) -> Result<Vec<Changed>, Error> {
        let name = document.calendar_name();
        let name = name.map_err(|e| Error::Refused(format!("SC1001: {e}")))?;
        let new = Arc::new(document.calendar(0).map_err(Error::Invalid)?);
        let store = &*self.context.store;
        let now = store.now().await?;
        let mut page = Page {
            after: None,
            limit: USERS,
        };
        let mut changed = Vec::new();
        let mut problems = Vec::new();
        let mut seen = 0;
        loop {
            let users = store.list_calendar_users(Some(name.clone()), page).await?;
            seen += users.len();
            for user in &users {
                let Some(job) = store.get_job_by_uid(user.job).await? else {
                    continue;
                };
                let old = self.documents.get(store, job.uid, job.revision).await?;
                let known = self.documents.calendars(store, &old).await?;
                let before = old.timing(job.uid, &known);
                let mut calendars = known.clone();
                calendars.add(name.clone(), new.clone());
                let versions = old.calendars().into_iter();
                let versions = versions.map(|(named, (_, version))| {
                    let version = if named == name {
                        0
                    } else {
                        version.unwrap_or(0)
                    };
                    (named, version)
                });
                let pinned = old.pinned(&versions.collect(), JobName::to_string);
                let pinned = pinned.map_err(Error::Invalid)?;
                match (before, pinned.timing(job.uid, &calendars)) {
                    (Ok(before), Ok(after)) => {
                        let zone = &old.spec.time_zone;
                        changed.extend(compare(&user.job_name, zone, &before, &after, now));
                    }
                    (Err(_), Ok(_)) => {}
                    (_, Err(wrong)) => problems.extend(wrong.into_iter().map(|p| Problem {
                        path: "spec".to_owned(),
                        message: format!("{} (job {}, {})", p.message, user.job_name, p.path),
                    })),
                }
            }
            let full = users.len() == USERS as usize && seen < MAX_COMPARED;
            match users.last().filter(|_| full) {
                Some(last) => page.after = Some(last.job),
                None if problems.is_empty() => return Ok(changed),
                None => return Err(Error::Invalid(problems)),
            }
        }
    }

    /// Deletes a calendar that no job uses.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] names the jobs; the store's.
    pub async fn delete_calendar(&self, actor: &str, name: &JobName) -> Result<(), Error> {
        let op = self.context.op(actor);
        let deleted = self.context.store.delete_calendar(op, name.clone());
        match deleted.await? {
            CalendarDeleted::Deleted => Ok(()),
            CalendarDeleted::Missing => Err(no_calendar(name)),
            CalendarDeleted::Used(jobs) => {
                let named: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                Err(Error::Refused(format!(
                    "SC5018: calendar {name} is used by {}; take it out of their schedules first",
                    named.join(", ")
                )))
            }
        }
    }

    /// A calendar, in its newest version or in another.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn calendar(&self, name: &JobName, version: Option<u32>) -> Result<Calendar, Error> {
        let found = self.context.store.get_calendar(name.clone(), version);
        match found.await? {
            Some(found) => Ok(found),
            None if version.is_some() => Err(Error::NotFound {
                what: "version of this calendar",
                name: format!("{name} {}", version.unwrap_or(0)),
            }),
            None => Err(no_calendar(name)),
        }
    }

    /// Calendars by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn calendars(&self, page: Page<JobName>) -> Result<Vec<Calendar>, Error> {
        Ok(self.context.store.list_calendars(page).await?)
    }

    /// Jobs that use a calendar, by uid.
    ///
    /// # Errors
    /// The store's.
    pub async fn calendar_users(
        &self,
        name: &JobName,
        page: Page<JobUid>,
    ) -> Result<Vec<CalendarUser>, Error> {
        let store = &self.context.store;
        Ok(store.list_calendar_users(Some(name.clone()), page).await?)
    }

    /// The calendars that a job's present document goes by.
    ///
    /// # Errors
    /// The store's.
    pub async fn calendars_of(&self, document: &Document) -> Result<Calendars, Error> {
        let store = &*self.context.store;
        Ok(self.documents.calendars(store, document).await?)
    }
}

/// `calendar cn-holidays 2 -> 3`, one after the other.
fn cause(old: &Document, new: &Pinned) -> String {
    let before = old.calendars();
    let changes = new.uses.iter().filter_map(|(name, version)| {
        let (_, old) = before.get(name)?;
        let old = (*old)?;
        (old != *version).then(|| format!("calendar {name} {old} -> {version}"))
    });
    changes.collect::<Vec<_>>().join(", ")
}

fn no_calendar(name: &JobName) -> Error {
    Error::NotFound {
        what: "calendar",
        name: name.to_string(),
    }
}

fn near(name: &JobName, known: &[Calendar]) -> String {
    // Those of other namespaces may not be for the eyes of who asks.
    let own = known.iter().filter(|c| c.name.namespace == name.namespace);
    let shown: Vec<String> = own.map(|c| c.name.to_string()).collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    match nearest(&name.to_string(), &shown) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    }
}

/// What differs between two timings from now on; `None` if nothing that was looked at does.
fn compare(
    job: &JobName,
    time_zone: &str,
    before: &Timing,
    after: &Timing,
    now: Timestamp,
) -> Option<Changed> {
    let through = now.checked_add(AHEAD).unwrap_or(now);
    let mut changed = Changed {
        job: job.clone(),
        time_zone: time_zone.to_owned(),
        gone: Vec::new(),
        new: Vec::new(),
        through,
        more: false,
    };
    let next = |timing: &Timing, at| timing.next(at).filter(|next| *next <= through);
    // One that has come to its end is not asked again: to find nothing is the longest search.
    let (mut old, mut new) = (next(before, now), next(after, now));
    let mut at = now;
    for _ in 0..MAX_WALKED {
        let Some(first) = old.into_iter().chain(new).min() else {
            return changed.differs();
        };
        if old != new {
            let list = if old == Some(first) {
                &mut changed.gone
            } else {
                &mut changed.new
            };
            if list.len() == MAX_NAMED {
                changed.more = true;
                changed.through = at;
                return changed.differs();
            }
            list.push(first);
        }
        if old == Some(first) {
            old = next(before, first);
        }
        if new == Some(first) {
            new = next(after, first);
        }
        at = first;
    }
    changed.through = at;
    changed.differs()
}

impl Changed {
    fn differs(self) -> Option<Self> {
        (!self.gone.is_empty() || !self.new.is_empty()).then_some(self)
    }
}
