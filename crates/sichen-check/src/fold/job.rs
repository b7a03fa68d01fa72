//! A job's high-water mark, and what was decided up to it (I2, I5); its pauses and its deletion (I39, I41).

use std::collections::BTreeSet;

use jiff::Timestamp;
use sichen_core::event::{Event, Kind};
use sichen_core::ids::{Occasion, OpId};

use super::{Broken, Trail, broken};
use crate::data::{Decided, Fields};
use crate::verdict::Invariant;

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub trail: Trail,
    pub revision: u32,
    pub mark: Option<Timestamp>,
    pub deleted: bool,
    pub paused: bool,
    /// A step of the mark wrote runs while the job was paused: right only if it resumes in the same
    /// operation.
    pub fired_paused: Option<OpId>,
    /// Whether the history has the job's creation.
    whole: bool,
    /// Where the mark stood when the history began.
    pub first_mark: Option<Timestamp>,
    /// Instants for which steps of the mark say that they wrote a run.
    pub fired: Vec<Timestamp>,
    /// What steps of the mark decided against.
    pub decided: Vec<Decided>,
    /// Planned instants with a run of rerun 0.
    pub planned: BTreeSet<Timestamp>,
    /// The instant that follows its runs, until the mark passes it.
    pub pending: Option<Timestamp>,
    /// Ends of runs that have made an instant, by run and operation.
    made: BTreeSet<(u64, OpId)>,
}

impl Job {
    pub fn apply(&mut self, e: &Event, data: &Fields) -> Result<(), Broken> {
        self.trail.check(e)?;
        if self.deleted {
            let message = format!("{} of a job that is deleted", e.kind);
            return broken(Invariant::I41, message);
        }
        self.judge_pause(Some(e))?;
        self.whole |= e.ver == 1;
        match e.kind {
            Kind::JobApplied => {
                let revision = data.revision.unwrap_or(self.revision + 1);
                if self.revision > 0 && revision < self.revision {
                    let message = format!("revision falls from {} to {revision}", self.revision);
                    return broken(Invariant::I45, message);
                }
                self.revision = revision;
                if self.mark.is_none() {
                    self.mark = data.high_water;
                }
            }
            Kind::ScheduleFollowed => self.follow(e, data)?,
            Kind::JobPaused => self.paused = true,
            Kind::JobResumed => self.paused = false,
            Kind::JobDeleted => self.deleted = true,
            _ => {}
        }
        if e.kind == Kind::ScheduleAdvanced {
            self.advance(data)?;
            self.fired_paused = (self.paused && !data.runs.is_empty()).then_some(e.op);
        }
        self.trail.push(e);
        Ok(())
    }

    /// What a resume leaves to be caught up with is started by the step before it, and by nobody else.
    /// `next` is the job's next event, if there is one.
    pub fn judge_pause(&mut self, next: Option<&Event>) -> Result<(), Broken> {
        let Some(op) = self.fired_paused.take() else {
            return Ok(());
        };
        match next {
            Some(e) if e.kind == Kind::JobResumed && e.op == op => Ok(()),
            // What follows a step that left no run open is made between the two.
            Some(e) if e.kind == Kind::ScheduleFollowed && e.op == op => {
                self.fired_paused = Some(op);
                Ok(())
            }
            _ => broken(
                Invariant::I39,
                "its schedule was moved and started runs while it was paused".to_owned(),
            ),
        }
    }

    /// One end of a run makes one instant, and it lies ahead.
    fn follow(&mut self, e: &Event, data: &Fields) -> Result<(), Broken> {
        if let (Some(at), Some(mark)) = (data.at, self.mark)
            && at <= mark
        {
            let message = format!("{at} is to follow, but everything to {mark} is decided");
            return broken(Invariant::I5, message);
        }
        if let Some(run) = data.run
            && !self.made.insert((run, e.op))
        {
            let message = format!("one end of run {run} makes two instants");
            return broken(Invariant::I3, message);
        }
        self.pending = data.at;
        Ok(())
    }

    /// The instant that follows a run is decided by the step of the mark that passes it.
    fn pass(&mut self, to: Timestamp, data: &Fields) -> Result<(), Broken> {
        let Some(at) = self.pending.filter(|at| *at <= to) else {
            return Ok(());
        };
        self.pending = None;
        let key = Occasion::Planned { at, rerun: 0 }.key();
        let mut said = data.decisions.iter().chain(&data.lengthens);
        let decided = said.any(|d| d.from <= at && at <= d.to);
        if decided || data.runs.contains(&key) {
            return Ok(());
        }
        let message = format!("{at} follows a run and is passed over");
        broken(Invariant::I2, message)
    }

    /// The record that a step makes longer is the last thing that was decided, and says the same.
    fn lengthen(&mut self, mark: Timestamp, longer: &Decided) -> Result<(), Broken> {
        let skips = self.decided.iter_mut().filter(|d| d.reason != "gap");
        let last = skips.max_by_key(|d| d.to);
        let run = self.fired.iter().max();
        let fits = |d: &&mut Decided| {
            d.from == longer.from
                && d.reason == longer.reason
                && d.to <= mark
                && d.to < longer.to
                && run.is_none_or(|run| *run < d.to)
        };
        let Some(last) = last.filter(fits) else {
            if !self.whole && self.first_mark.is_none_or(|first| longer.from <= first) {
                // It began before the history does.
                self.decided.push(longer.clone());
                return Ok(());
            }
            let message = format!(
                "the record {} from {} is made longer, but is not what was decided last",
                longer.reason, longer.from
            );
            return broken(Invariant::I2, message);
        };
        last.to = longer.to;
        last.count += longer.count;
        Ok(())
    }

    fn advance(&mut self, data: &Fields) -> Result<(), Broken> {
        let (Some(from), Some(to)) = (data.from, data.to) else {
            return Ok(());
        };
        if let Some(mark) = self.mark
            && mark != from
        {
            return broken(
                Invariant::I5,
                format!("the mark moves from {from}, but it was at {mark}"),
            );
        }
        if to < from {
            return broken(
                Invariant::I5,
                format!("the mark moves back from {from} to {to}"),
            );
        }
        self.pass(to, data)?;
        if let Some(longer) = &data.lengthens {
            self.lengthen(from, longer)?;
        }
        self.mark = Some(to);
        self.first_mark = self.first_mark.or(Some(from));
        self.fired.extend(
            data.runs
                .iter()
                .filter_map(|key| match Occasion::parse(key) {
                    Some(Occasion::Planned { at, rerun: 0 }) => Some(at),
                    _ => None,
                }),
        );
        self.decided.extend(data.decisions.iter().cloned());
        Ok(())
    }
}
