//! What users do with the past and with calendars: backfills that are asked for, checked, paused, resumed
//! and given up; days off that come and go.
//!
//! A user's call is made in one instant and never fails; what the duties make of it meets every fault.
//!
//! # Not here
//! Judging it: the checker of the whole history ([`super::end`]).

use jiff::SignedDuration;
use sichen_core::backfill::check::Verify;
use sichen_core::backfill::{Look, Mode, Order, State, Turn, Wanted, look};
use sichen_core::document::{CalendarDocument, Calendars, Document};
use sichen_core::ids::{BackfillId, JobUid};
use sichen_core::model::{Dump, Job};
use sichen_core::name::Name;
use sichen_core::port::{MAX_PAGE, Page};
use sichen_engine::context::Context;
use sichen_engine::control::Control;

use super::{Duty, Sim, instant};

/// The day that the calendar turns on and off: the one on which simulated time begins.
const DAY: &str = "2027-01-15";
/// The job that counts.
const COUNT: &str = "count";

impl Sim {
    pub(super) fn control(&self) -> Control {
        Control::new(Context::new(self.store.clone(), self.ids.clone()))
    }

    /// A job that keeps to a calendar; its instants are known by the second evaluator alone.
    pub(super) fn create_calendar_job(&mut self, n: usize) {
        self.turn_calendar();
        let document: Document = serde_json::from_value(serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": format!("job-{n}") },
            "spec": {
                "schedules": [{
                    "cron": "*/20 * * * * *", "calendars": [{ "name": "days", "use": "working-days" }],
                }],
                "run": { "handler": "settle" }, "overlap": "allow",
                "retry": { "maxAttempts": 6, "backoff": { "fixed": "500ms" } },
            },
        }))
        .expect("the document is written here");
        let control = self.control();
        let applied = self.at_once(Box::pin(control.apply("user sim", &document)));
        self.periods.insert(applied.expect("it is right").uid, 0);
    }

    /// The job by which others are counted again. Those of other namespaces look for it in vain.
    pub(super) fn create_checking_job(&mut self) {
        if !self.options.checks {
            return;
        }
        let document: Document = serde_json::from_value(serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": COUNT },
            "spec": {
                "run": { "handler": "settle" }, "overlap": "allow",
                "retry": { "maxAttempts": 3, "backoff": { "fixed": "500ms" } },
            },
        }))
        .expect("the document is written here");
        let control = self.control();
        let applied = self.at_once(Box::pin(control.apply("user sim", &document)));
        self.periods.insert(applied.expect("it is right").uid, 0);
    }

    /// The calendars of a job's document.
    pub(super) fn calendars_of(&self, document: &Document) -> Calendars {
        let control = self.control();
        let found = self.at_once(Box::pin(control.calendars_of(document)));
        found.expect("written by the simulation")
    }

    /// Makes the day one off, or one to work on; the jobs that keep to it follow.
    pub(super) fn turn_calendar(&mut self) {
        let list = if self.rng.chance(500) { "off" } else { "work" };
        let key = if list == "off" {
            "daysOff"
        } else {
            "workingDays"
        };
        let document: CalendarDocument = serde_json::from_value(serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": { "name": "days" },
            "spec": { key: [DAY] },
        }))
        .expect("the document is written here");
        let control = self.control();
        // A job that a trigger is just writing is brought over by the janitor.
        let _ = self.at_once(Box::pin(control.apply_calendar("user sim", &document)));
    }

    /// Asks for a backfill, or pauses, resumes or gives up one.
    pub(super) fn play_with_the_past(&mut self) {
        let uids: Vec<JobUid> = self.periods.keys().copied().collect();
        let uid = uids[self.rng.below(uids.len())];
        let Ok(Some(job)) = self.at_once(self.store.get_job_by_uid(uid)) else {
            return;
        };
        if self.rng.chance(500) {
            self.ask_for_backfill(&job);
        } else {
            self.turn_backfill(uid);
        }
        for server in 0..self.servers.len() {
            self.wake(server, Duty::Backfill);
        }
    }

    fn ask_for_backfill(&mut self, job: &Job) {
        let from = instant(self.now) - SignedDuration::from_secs(self.rng.between(0, 240));
        let wanted = Wanted {
            from,
            to: from + SignedDuration::from_secs(self.rng.between(20, 120)),
            mode: [Mode::OnlyMissing, Mode::OnlyFailed, Mode::All][self.rng.below(3)],
            order: [Order::Oldest, Order::Newest][self.rng.below(2)],
            parallelism: 1 + self.rng.below(3) as u32,
            rate: self.rng.chance(300).then_some(60),
            verify: self.verify(),
            reason: String::new(),
        };
        let key = format!("b{}", self.rng.below(12));
        let control = self.control();
        // The same key with another range is refused, and so are too many at once.
        let asked = control.start_backfill("user sim", &job.name, key, wanted);
        let _ = self.at_once(Box::pin(asked));
    }

    fn verify(&mut self) -> Option<Verify> {
        let wanted = self.options.checks && self.rng.chance(600);
        wanted.then(|| Verify {
            job: Name::new(COUNT).expect("a name"),
            rate: [6, 60, 600][self.rng.below(3)],
        })
    }

    fn backfills_of(&self, job: JobUid) -> Vec<sichen_core::backfill::Backfill> {
        let page: Page<BackfillId> = Page {
            after: None,
            limit: MAX_PAGE,
        };
        let found = self.at_once(self.store.list_backfills(job, page));
        found.expect("memory answers")
    }

    fn turn_backfill(&mut self, job: JobUid) {
        let mut open = self.backfills_of(job);
        open.retain(|backfill| !backfill.state.is_over());
        let Some(backfill) = open.get(self.rng.below(open.len().max(1))) else {
            return;
        };
        let (id, paused) = (backfill.id, backfill.state == State::Paused);
        let turn = match (paused, self.rng.below(4)) {
            (_, 0) => Turn::Cancel,
            (true, _) => Turn::Resume,
            (false, _) => Turn::Pause,
        };
        let control = self.control();
        let _ = self.at_once(Box::pin(control.turn_backfill("user sim", id, turn)));
    }

    /// Every check that may still be started, and every one that was, is over.
    pub(super) fn judge_checks(&mut self, dump: &Dump) {
        for backfill in &dump.backfills {
            let starts = matches!(backfill.state, State::Running | State::Finished);
            let (due, open) = (backfill.checks.due, backfill.checks.open);
            if open > 0 || starts && due > 0 {
                self.problems.push(format!(
                    "backfill {}, {}, has {due} checks to start and {open} open ones at the end",
                    backfill.id, backfill.state
                ));
            }
        }
    }

    /// Whether some backfill has open runs or checks, or instants that it can still take.
    pub(super) fn backfills_move(&self) -> bool {
        let jobs = self.periods.keys();
        let mut jobs = jobs.filter_map(|uid| self.at_once(self.store.get_job_by_uid(*uid)).ok()?);
        let moves = |job: Job| {
            self.backfills_of(job.uid).iter().any(|backfill| {
                let ahead = look(&backfill.wanted, backfill.place, job.high_water);
                let starts = matches!(backfill.state, State::Running | State::Finished);
                let (checks, goes_on) = (&backfill.checks, backfill.state == State::Running);
                let checked = checks.open > 0 || starts && checks.due > 0;
                backfill.runs.open > 0 || checked || goes_on && ahead != Look::Wait
            })
        };
        jobs.any(moves)
    }
}
