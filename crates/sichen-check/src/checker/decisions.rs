//! Whether each instant of a job was decided once (I2), none was made up (I3), and decisions have their rows
//! (I46).
//!
//! # Not here
//! What the instants are: the oracle ([`super::Oracle`]).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use jiff::Timestamp;
use sichen_core::ids::JobUid;
use sichen_core::model::Decision;

use super::Checker;
use crate::data::Decided;
use crate::fold::Broken;
use crate::verdict::Invariant;

/// The most instants compared for one job; more leave I2 undecided for it.
const MAX_INSTANTS: usize = 1_000_000;

/// I2 and I3 (and I46 for decisions) of one job; `Ok(Some(reason))` where the oracle is needed and
/// can't say.
pub(super) fn judge_job(
    uid: JobUid,
    job: &crate::fold::job::Job,
    rows: &[Decision],
    checker: &Checker,
) -> Result<Option<String>, Broken> {
    let removed: BTreeSet<Timestamp> = rows
        .iter()
        .filter(|d| d.reason == "removed")
        .map(|d| d.from)
        .collect();
    let has_run = |p: &Timestamp| job.planned.contains(p) || removed.contains(p);
    let mut fired = BTreeSet::new();
    for at in &job.fired {
        if !has_run(at) {
            return Err(Broken(
                Invariant::I2,
                format!("{at} is decided as a run, but has none"),
            ));
        }
        if !fired.insert(*at) {
            return Err(Broken(
                Invariant::I2,
                format!("{at} is decided twice, as a run"),
            ));
        }
    }
    let mut decided = job.decided.clone();
    decided.sort();
    // What a clock change leaves out stands at the change, which may be a planned instant too.
    let planned: Vec<&Decided> = decided.iter().filter(|d| d.reason != "gap").collect();
    for pair in planned.windows(2) {
        if pair[1].from <= pair[0].to {
            let message = format!(
                "{} is decided {} and {}",
                pair[1].from, pair[0].reason, pair[1].reason
            );
            return Err(Broken(Invariant::I2, message));
        }
    }
    let within = |d: &Decided, p: &Timestamp| d.from <= *p && *p <= d.to;
    for d in &planned {
        if let Some(both) = fired.range(d.from..=d.to).next()
            && d.count > 0
        {
            return Err(Broken(
                Invariant::I2,
                format!("{both} has a run and the decision {}", d.reason),
            ));
        }
    }
    if checker.rows.any && !checker.options.partial {
        judge_decision_rows(&decided, rows)?;
    }
    let (Some(first), Some(last)) = (job.first_mark, job.mark) else {
        return Ok(None);
    };
    let Some(oracle) = &checker.options.oracle else {
        return Ok(Some("no oracle for the schedules was given".into()));
    };
    let instants = oracle
        .instants(uid, first, last)
        .filter(|i| i.len() <= MAX_INSTANTS);
    let Some(instants) = instants else {
        return Ok(Some(format!(
            "the oracle does not know the schedule of job {uid}"
        )));
    };
    let instants: BTreeSet<Timestamp> = instants.into_iter().collect();
    let settled = |p: &Timestamp| has_run(p) || planned.iter().any(|d| within(d, p));
    if let Some(lost) = instants.iter().find(|p| !settled(p)) {
        return Err(Broken(
            Invariant::I2,
            format!("{lost} has neither run nor decision"),
        ));
    }
    if let Some(invented) = fired.iter().find(|p| !instants.contains(*p)) {
        return Err(Broken(
            Invariant::I3,
            format!("{invented} has a run, the schedule has no such instant"),
        ));
    }
    judge_counts(&planned, &instants, first..=last)?;
    Ok(None)
}

/// I2 and I3 of decisions about several instants: one that spans an instant and does not count it has lost
/// it, one that counts more has made it up.
fn judge_counts(
    planned: &[&Decided],
    instants: &BTreeSet<Timestamp>,
    judged: RangeInclusive<Timestamp>,
) -> Result<(), Broken> {
    for d in planned {
        if !judged.contains(&d.from) || !judged.contains(&d.to) {
            continue;
        }
        let there = instants.range(d.from..=d.to).count() as u64;
        let invariant = match d.count.cmp(&there) {
            Ordering::Equal => continue,
            Ordering::Less => Invariant::I2,
            Ordering::Greater => Invariant::I3,
        };
        let message = format!(
            "the decision {} from {} to {} counts {} instants, the schedule has {there}",
            d.reason, d.from, d.to, d.count
        );
        return Err(Broken(invariant, message));
    }
    Ok(())
}

/// Each decision of the log has its row, and each row its event.
fn judge_decision_rows(decided: &[Decided], rows: &[Decision]) -> Result<(), Broken> {
    let mut kept: Vec<Decided> = rows
        .iter()
        .filter(|d| d.reason != "removed")
        .map(|d| Decided {
            from: d.from,
            to: d.to,
            count: d.count,
            reason: d.reason.clone(),
        })
        .collect();
    kept.sort();
    if kept == decided {
        return Ok(());
    }
    let message = format!(
        "the log has {} decisions, the rows are {} and differ",
        decided.len(),
        kept.len()
    );
    Err(Broken(Invariant::I46, message))
}
