//! Stretches of instants that did not run: neighbours with one reason are one record.
//!
//! A job that fires each second and whose run takes an hour is blocked by that run 3,600 times. That
//! is one fact and one record, also when each second is decided by a step of its own: then the step
//! makes the record before it longer.
//!
//! # Invariants
//! - A record holds no instant that ran, and none with another reason: what lies between its ends was
//!   decided as it says.
//! - Only a step that begins where the one before it has ended makes its record longer. Who does not
//!   know what was decided last begins a new record; that costs a row and is as true.
//!
//! # Not here
//! Why an instant does not run (`super::due`, `super::overlap`); writing the records (stores).

use jiff::Timestamp;

use crate::model::Decision;
use crate::port::Advance;

/// The record that the last step of a job has ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The high-water mark that the step led to.
    mark: Timestamp,
    from: Timestamp,
    reason: String,
    reference: String,
}

/// Sorts records, and makes one of those between which nothing ran and that say the same. `ran` are
/// the instants that become runs beside them.
#[must_use]
pub fn join(mut decisions: Vec<Decision>, ran: &[Timestamp]) -> Vec<Decision> {
    decisions.sort_by_key(|d| (d.from, d.to));
    let mut joined: Vec<Decision> = Vec::with_capacity(decisions.len());
    let mut last: Option<usize> = None;
    for decision in decisions {
        if !decision.is_skip() {
            joined.push(decision);
            continue;
        }
        if let Some(before) = last.map(|place| &mut joined[place])
            && (&before.reason, &before.reference) == (&decision.reason, &decision.reference)
            && !ran.iter().any(|at| before.to < *at && *at < decision.from)
        {
            before.to = decision.to;
            before.count += decision.count;
            continue;
        }
        last = Some(joined.len());
        joined.push(decision);
    }
    joined
}

impl Tail {
    /// Lets `step` make this record longer, if the first thing that it decides is more of the same.
    pub fn lengthen(&self, step: &mut Advance) {
        let first_run = step.runs.iter().filter_map(|r| r.occasion.planned_at());
        let first_run = first_run.min();
        let skip = step.decisions.iter().position(Decision::is_skip);
        let more = skip.map(|place| (place, &step.decisions[place]));
        let Some((place, more)) = more else { return };
        let same = (&self.reason, &self.reference) == (&more.reason, &more.reference);
        if self.mark == step.from && same && first_run.is_none_or(|run| more.from < run) {
            let more = step.decisions.remove(place);
            step.lengthens = Some(Decision {
                from: self.from,
                ..more
            });
        }
    }

    /// What `step` ends with once it is written, after a step that ended with `before`.
    #[must_use]
    pub fn after(step: &Advance, before: Option<Tail>) -> Option<Tail> {
        let last_run = step.runs.iter().filter_map(|r| r.occasion.planned_at());
        let last_run = last_run.max();
        let skips = step.decisions.iter().filter(|d| d.is_skip());
        let last = skips.chain(&step.lengthens).max_by_key(|d| d.to);
        let unchanged = before.filter(|tail| tail.mark == step.from && last_run.is_none());
        match last {
            None => unchanged.map(|tail| Tail {
                mark: step.to,
                ..tail
            }),
            Some(last) if last_run.is_some_and(|run| run > last.to) => None,
            Some(last) => Some(Tail {
                mark: step.to,
                from: last.from,
                reason: last.reason.clone(),
                reference: last.reference.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
