//! Backfills at the end: their rows against their folds (I46) and their runs (I47), and the records
//! of skipped instants against the runs that fill them (I9).
//!
//! # Not here
//! That an instant has one run (I1); which moves a backfill may make (I45, its fold).

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::backfill::Backfill;
use sichen_core::backfill::check::CheckState;
use sichen_core::event::Entity;
use sichen_core::ids::{BackfillId, JobUid, Occasion, RunId};
use sichen_core::model::{Decision, Run};

use super::Checker;
use super::end::{compare, missing};
use crate::fold::Broken;
use crate::verdict::Invariant;

/// What the rows of runs say of lanes and instants.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Open runs, as the backfill's row counts them and as there are.
    open: BTreeMap<BackfillId, (u32, u32)>,
    /// First runs of planned instants.
    first: BTreeMap<RunId, (JobUid, Timestamp)>,
}

impl Lanes {
    pub(super) fn note(&mut self, run: &Run) {
        if let Some(lane) = run.backfill {
            self.open.entry(lane).or_default().1 += u32::from(!run.state.is_closed());
        }
        if let Occasion::Planned { at, rerun: 0 } = run.occasion {
            self.first.insert(run.id, (run.job, at));
        }
    }
}

/// Each run that succeeded in the lane has a check, if they are checked; what the row counts of them is
/// what its steps told.
fn checks_differ(told: &BTreeMap<(u64, u32), CheckState>, row: &Backfill) -> Option<String> {
    let checks = &row.checks;
    let succeeded = row.wanted.verify.as_ref().map_or(0, |_| row.runs.succeeded);
    let of = |state| told.values().filter(|told| **told == state).count() as u64;
    compare("checks", succeeded, checks.total())
        .or(compare(
            "open checks",
            of(CheckState::Open),
            u64::from(checks.open),
        ))
        .or(compare(
            "checks that agree",
            of(CheckState::Agrees),
            checks.agree,
        ))
        .or(compare(
            "checks that differ",
            of(CheckState::Differs),
            checks.differ,
        ))
        .or(compare(
            "checks without counts",
            of(CheckState::Uncounted),
            checks.uncounted,
        ))
}

impl Checker {
    pub(super) fn backfill_row(&mut self, row: &Backfill) {
        self.rows.lanes.open.entry(row.id).or_default().0 = row.runs.open;
        let entity = Entity::Backfill(row.id);
        let Some(fold) = self.backfills.get(&row.id) else {
            return self.differs(entity, missing(self.options.partial), None);
        };
        if fold.trail.closed {
            return;
        }
        let mut differs = compare("state", fold.state, row.state.word()).or(compare(
            "version",
            fold.trail.ver,
            row.ver,
        ));
        if !fold.trail.partial {
            let counts = &row.counts;
            differs = differs
                .or(compare(
                    "runs written",
                    fold.written,
                    counts.created + counts.reruns,
                ))
                .or(compare("runs retried", fold.reopened, counts.reopened))
                .or(compare("instants left", fold.left, counts.left))
                .or(checks_differ(&fold.checks, row));
        }
        let last = fold.trail.last;
        self.differs(entity, differs, last);
    }

    /// Judged where all rows were given and nothing else is wrong.
    pub(super) fn judge_lanes(&mut self) {
        for (id, (counted, open)) in std::mem::take(&mut self.rows.lanes.open) {
            if counted != open {
                let message = format!("its row counts {counted} open runs; {open} are open");
                let broken = Broken(Invariant::I47, message);
                self.report(Entity::Backfill(id), broken, Vec::new());
            }
        }
    }

    /// Whether the runs that fill a job's records are runs of instants in them.
    pub(super) fn judge_filled(&self, job: JobUid, rows: &[Decision]) -> Result<(), Broken> {
        // What old age has removed still fills.
        let removed = |d: &Decision| {
            let within = |r: &Decision| d.from <= r.from && r.to <= d.to;
            let tombs = rows.iter().filter(|r| r.reason == Decision::REMOVED);
            tombs.filter(|r| within(r)).count() > 0
        };
        for d in rows {
            let broken = |message: String| {
                let message = format!(
                    "the record {} from {} to {}: {message}",
                    d.reason, d.from, d.to
                );
                Err(Broken(Invariant::I9, message))
            };
            if d.filled > d.count {
                return broken(format!(
                    "{} of its {} instants have run since",
                    d.filled, d.count
                ));
            }
            let Some(run) = d.filled_by else { continue };
            match self.rows.lanes.first.get(&run) {
                Some((of, at)) if *of == job && d.from <= *at && *at <= d.to => {}
                Some((_, at)) => {
                    return broken(format!("is filled by run {run}, which is of {at}"));
                }
                None if removed(d) => {}
                None => return broken(format!("is filled by run {run}, which is not there")),
            }
        }
        Ok(())
    }
}
