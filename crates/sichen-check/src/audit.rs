//! The instants that were recorded, against those that the schedules have.
//!
//! The records of a history are its rows: runs and decisions. Which revision decided which stretch
//! of time is read from the job's events; what instants a revision has is asked of the second
//! evaluator (`sichen-audit`), which shares nothing with the scheduler.
//!
//! # Invariants
//! - A stretch whose revision is not known, or not understood, is reported as not judged; it is
//!   never passed over.
//!
//! # Not here
//! Comparing ([`sichen_audit::ledger`]); whether the log and the rows agree ([`crate::Checker`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::Value;
use sichen_audit::ledger::{Decided, Fired, Ledger, Report, Segment, union};
use sichen_audit::{Shelf, Timetable, timetables};
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{JobUid, Occasion, Revision};
use sichen_core::model::{Dump, Job};
use sichen_core::name::JobName;
use sichen_core::schedule::zones::{Taken, Zones};

use crate::checker::{FinalRow, Oracle};
use crate::data::Fields;

/// The most instants handed to the checker for one job; more leave its promises undecided.
const MAX_INSTANTS: usize = 1_000_000;

/// What a history says about the instants of its jobs.
#[derive(Debug, Default)]
pub struct Records {
    jobs: BTreeMap<JobUid, JobRecords>,
    /// Documents of calendars by name and version.
    calendars: BTreeMap<(String, String), BTreeMap<u32, String>>,
    /// The latest time that anything in the history has.
    latest: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct JobRecords {
    row: Option<Job>,
    documents: BTreeMap<u32, String>,
    course: Course,
    fired: Vec<Fired>,
    decided: Vec<Decided>,
}

/// What a job's events say about its revisions and its mark.
#[derive(Clone, Debug, Default)]
struct Course {
    ver: u32,
    /// Changes that came before their turn: ids of events are not the order of commits.
    early: BTreeMap<u32, Change>,
    deleted: bool,
    paused: bool,
    /// Closed stretches: after, through, revision.
    closed: Vec<(Timestamp, Timestamp, u32)>,
    /// The open one: after, mark, revision.
    open: Option<(Timestamp, Timestamp, u32)>,
    /// Instants that ends of runs have made, and the one that has not come yet.
    followed: Vec<Timestamp>,
    pending: Option<Timestamp>,
    /// Where newer data of a zone was adopted, and what the zone was by the old: in order.
    steps: BTreeMap<(Timestamp, String), Taken>,
}

/// One event of a job.
#[derive(Clone, Debug)]
enum Change {
    Applied {
        revision: Option<u32>,
        high_water: Option<Timestamp>,
    },
    Advanced {
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        zones: Option<Zones>,
    },
    Followed(Option<Timestamp>),
    Paused(bool),
    Deleted,
    Other,
}

/// One job's audit.
#[derive(Debug)]
pub struct Audited {
    pub uid: JobUid,
    /// As its row has it.
    pub name: Option<JobName>,
    pub deleted: bool,
    /// The zone of its newest document.
    pub time_zone: String,
    /// What was judged, `(after, through]`.
    pub after: Timestamp,
    pub through: Timestamp,
    pub report: Report,
}

impl Records {
    /// The records of a whole store.
    #[must_use]
    pub fn of(dump: &Dump) -> Records {
        let mut records = Records::default();
        for event in &dump.events {
            records.event(event);
        }
        records.rows(dump);
        records
    }

    /// Takes all rows and documents of a dump, but none of its events.
    pub fn rows(&mut self, dump: &Dump) {
        for job in &dump.jobs {
            self.row(&FinalRow::Job(job));
        }
        for (job, revision, document) in &dump.revisions {
            self.revision(*job, *revision, document);
        }
        for (name, version, document) in &dump.calendars {
            self.calendar(name, *version, document);
        }
        for run in &dump.runs {
            self.row(&FinalRow::Run(run));
        }
        for (job, decision) in &dump.decisions {
            self.row(&FinalRow::Decision(*job, decision));
        }
    }

    /// Takes the next event of the log; only those of jobs matter.
    pub fn event(&mut self, event: &Event) {
        self.latest = self.latest.max(Some(event.at));
        // Only then is it worth reading: most events are of other entities.
        let Entity::Job(uid) = &event.entity else {
            return;
        };
        let Ok(data) = Fields::of(event) else {
            return;
        };
        let change = match event.kind {
            Kind::JobApplied => Change::Applied {
                revision: data.revision,
                high_water: data.high_water,
            },
            Kind::ScheduleAdvanced => Change::Advanced {
                from: data.from,
                to: data.to,
                zones: data.zones,
            },
            Kind::ScheduleFollowed => Change::Followed(data.at),
            Kind::JobPaused => Change::Paused(true),
            Kind::JobResumed => Change::Paused(false),
            Kind::JobDeleted => Change::Deleted,
            _ => Change::Other,
        };
        let job = self.jobs.entry(*uid).or_default();
        job.course.take(event.ver, change);
    }

    /// Takes a row.
    pub fn row(&mut self, row: &FinalRow<'_>) {
        match row {
            FinalRow::Job(job) => {
                let records = self.jobs.entry(job.uid).or_default();
                records
                    .documents
                    .entry(job.revision.0)
                    .or_insert_with(|| job.document.clone());
                records.row = Some((*job).clone());
            }
            FinalRow::Run(run) => {
                let Occasion::Planned { at, rerun: 0 } = run.occasion else {
                    return;
                };
                let fired = Fired {
                    at_us: at.as_microsecond(),
                    run: run.id.0,
                    revision: run.revision.0,
                };
                self.jobs.entry(run.job).or_default().fired.push(fired);
            }
            FinalRow::Decision(job, decision) => {
                let decided = Decided {
                    from_us: decision.from.as_microsecond(),
                    to_us: decision.to.as_microsecond(),
                    count: decision.count,
                    reason: decision.reason.clone(),
                };
                self.jobs.entry(*job).or_default().decided.push(decided);
            }
            FinalRow::Shard(_)
            | FinalRow::Session(_)
            | FinalRow::Duty(_)
            | FinalRow::Backfill(_)
            | FinalRow::Hold(_) => {}
        }
    }

    /// Takes the document of a revision.
    pub fn revision(&mut self, job: JobUid, revision: Revision, document: &str) {
        let documents = &mut self.jobs.entry(job).or_default().documents;
        documents.insert(revision.0, document.to_owned());
    }

    /// Takes the document of a version of a calendar.
    pub fn calendar(&mut self, name: &JobName, version: u32, document: &str) {
        let key = (name.namespace.to_string(), name.name.to_string());
        let versions = self.calendars.entry(key).or_default();
        versions.insert(version, document.to_owned());
    }

    /// The document of a calendar in a version; without one, nothing is guessed.
    fn on_shelf(&self, namespace: &str, name: &str, version: Option<u64>) -> Option<Value> {
        let versions = self
            .calendars
            .get(&(namespace.to_owned(), name.to_owned()))?;
        let text = versions.get(&u32::try_from(version?).ok()?)?;
        serde_json::from_str(text).ok()
    }

    /// All jobs: identity, name if its row was given, whether it was deleted.
    pub fn jobs(&self) -> impl Iterator<Item = (JobUid, Option<&JobName>, bool)> {
        self.jobs.iter().map(|(uid, job)| {
            let name = job.row.as_ref().map(|row| &row.name);
            (*uid, name, job.course.deleted)
        })
    }

    /// The latest time that anything in the history has.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        self.latest
    }

    /// The zone of a job's newest document.
    #[must_use]
    pub fn time_zone(&self, job: JobUid) -> String {
        let document = self
            .jobs
            .get(&job)
            .and_then(|job| job.documents.values().next_back());
        let document = document.and_then(|text| serde_json::from_str(text).ok());
        let document: serde_json::Value = document.unwrap_or_default();
        document["spec"]["timeZone"]
            .as_str()
            .unwrap_or("UTC")
            .to_owned()
    }

    /// Audits one job within `(after, through]`: from its creation on and up to what is decided, but
    /// no less far than `overdue`, where a bound is left out. What is overdue and not decided is a
    /// finding, unless the job is paused or deleted; a `through` beyond both has not come and is cut
    /// there. Without `overdue` all up to `through` counts as past. `None` if the history has no such
    /// job.
    #[must_use]
    pub fn audit(
        &self,
        uid: JobUid,
        after: Option<Timestamp>,
        through: Option<Timestamp>,
        overdue: Option<Timestamp>,
    ) -> Option<Audited> {
        let job = self.jobs.get(&uid)?;
        let course = job.course.settled();
        let shelf = |space: &str, name: &str, version| self.on_shelf(space, name, version);
        let mut ledger = job.ledger(uid, &course, &shelf);
        let mark = course.open.map(|(_, mark, _)| mark);
        let first = course.closed.first().copied().or(course.open);
        let created = first.map(|(after, ..)| after);
        let now_is_known = overdue.is_some();
        // A catch-up at a rate is looked at again in time; what waits for it is not missing.
        if job.waits_past(overdue) {
            ledger.present = None;
        }
        let overdue = overdue.filter(|_| ledger.present.is_some());
        let known = mark.max(overdue).unwrap_or(Timestamp::UNIX_EPOCH);
        let through = match through {
            Some(through) if now_is_known => through.min(known),
            Some(through) => through,
            None => known,
        };
        let begin = after.max(created).unwrap_or(through).min(through);
        // Runs of times before the creation were asked for; they are judged only by name.
        let report = ledger.audit(
            after.unwrap_or(Timestamp::MIN).as_microsecond(),
            through.as_microsecond(),
        );
        Some(Audited {
            uid,
            name: job.row.as_ref().map(|row| row.name.clone()),
            deleted: course.deleted,
            time_zone: self.time_zone(uid),
            after: begin,
            through,
            report,
        })
    }

    /// Instants in `(from, to]`, or `None` if some revision of that time is not understood or there
    /// are more than [`MAX_INSTANTS`].
    fn instants(&self, uid: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>> {
        let mut found = Vec::new();
        let job = self.jobs.get(&uid)?;
        let shelf = |space: &str, name: &str, version| self.on_shelf(space, name, version);
        for segment in job.segments(uid, &job.course.settled(), &shelf) {
            let after = segment.after_us.max(from.as_microsecond());
            let through = segment.through_us.min(to.as_microsecond());
            if after >= through {
                continue;
            }
            let timetables = segment.timetables.ok()?;
            let bounds = (after.div_euclid(1_000_000), through.div_euclid(1_000_000));
            for at in union(&timetables, bounds.0, bounds.1) {
                if found.len() == MAX_INSTANTS {
                    return None;
                }
                found.push(Timestamp::from_second(at).ok()?);
            }
        }
        Some(found)
    }
}

impl Course {
    fn take(&mut self, ver: u32, change: Change) {
        self.early.insert(ver, change);
        while let Some(change) = self.early.remove(&(self.ver + 1)) {
            self.apply(change);
            self.ver += 1;
        }
    }

    /// With whatever still waits for changes that never came.
    fn settled(&self) -> Course {
        let mut course = self.clone();
        for (_, change) in std::mem::take(&mut course.early) {
            course.apply(change);
        }
        course
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Applied {
                revision,
                high_water,
            } => self.applied(revision, high_water),
            Change::Advanced { from, to, zones } => {
                let steps = zones.into_iter().flat_map(|zones| zones.steps);
                self.steps
                    .extend(steps.map(|(name, step)| ((step.at, name), step.old)));
                // The document of a history that begins in the middle is not known: revision 0.
                let begun = self.open.or(from.map(|from| (from, from, 0)));
                self.open =
                    begun.map(|(after, mark, revision)| (after, to.unwrap_or(mark), revision));
                let passed = self.pending.filter(|at| to.is_some_and(|to| *at <= to));
                if passed.is_some() {
                    self.followed.extend(passed);
                    self.pending = None;
                }
            }
            Change::Followed(at) => self.pending = at,
            Change::Paused(paused) => self.paused = paused,
            Change::Deleted => self.deleted = true,
            Change::Other => {}
        }
    }

    /// A creation, or an edit, whose transaction closes the stretch of the revision before.
    fn applied(&mut self, revision: Option<u32>, high_water: Option<Timestamp>) {
        self.open = match self.open.take() {
            None => high_water.map(|mark| (mark, mark, revision.unwrap_or(1))),
            Some((after, mark, old)) => {
                self.closed.push((after, mark, old));
                Some((mark, mark, revision.unwrap_or(old + 1)))
            }
        };
    }
}

impl JobRecords {
    /// Whether the rate of the job's catch-up lets it wait until after `bound`.
    fn waits_past(&self, bound: Option<Timestamp>) -> bool {
        let Some(row) = &self.row else { return false };
        let document: serde_json::Value = serde_json::from_str(&row.document).unwrap_or_default();
        let paced = !document["spec"]["catchUp"]["rate"].is_null();
        paced
            && row
                .next_due
                .zip(bound)
                .is_some_and(|(next, bound)| next > bound)
    }

    fn segments(&self, uid: JobUid, course: &Course, shelf: Shelf<'_>) -> Vec<Segment> {
        let stretches = course.closed.iter().copied().chain(course.open);
        stretches
            .map(|(after, through, revision)| Segment {
                after_us: after.as_microsecond(),
                through_us: through.as_microsecond(),
                revision,
                timetables: self.timetables(uid, revision, course, shelf),
            })
            .collect()
    }

    fn timetables(
        &self,
        uid: JobUid,
        revision: u32,
        course: &Course,
        shelf: Shelf<'_>,
    ) -> Result<Vec<Timetable>, String> {
        let text = self
            .documents
            .get(&revision)
            .ok_or("its document is not in the history")?;
        let document = serde_json::from_str(text).map_err(|e| format!("its document: {e}"))?;
        let mut found = timetables(&document, &uid.to_string(), shelf)?;
        for ((at, name), old) in &course.steps {
            let change = old.change.map(|c| (c.at.as_second(), i64::from(c.before)));
            let known = found.iter_mut().filter(|t| t.zone.name() == name);
            known.for_each(|t| t.zone.step(at.as_second(), i64::from(old.offset), change));
        }
        let followed = course.followed.iter().chain(&course.pending);
        let followed: Vec<i64> = followed.map(|at| at.as_second()).collect();
        if !followed.is_empty() {
            found.push(Timetable::listed(followed));
        }
        Ok(found)
    }

    fn ledger(&self, uid: JobUid, course: &Course, shelf: Shelf<'_>) -> Ledger {
        let segments = self.segments(uid, course, shelf);
        let live = !course.paused && !course.deleted;
        let present = segments.last().filter(|_| live).map(|last| Segment {
            after_us: last.through_us,
            ..last.clone()
        });
        let known = self.documents.keys().filter_map(|revision| {
            let timetables = self.timetables(uid, *revision, course, shelf).ok()?;
            Some((*revision, timetables))
        });
        Ledger {
            segments,
            present,
            revisions: known.collect(),
            fired: self.fired.clone(),
            decided: self.decided.clone(),
        }
    }
}

/// Records that are filled while the checker reads the same history, and asked at its end.
#[derive(Clone, Debug, Default)]
pub struct Shared(pub Rc<RefCell<Records>>);

impl Oracle for Shared {
    fn instants(&self, job: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>> {
        self.0.borrow().instants(job, from, to)
    }
}

impl Oracle for Records {
    fn instants(&self, job: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>> {
        Records::instants(self, job, from, to)
    }
}
