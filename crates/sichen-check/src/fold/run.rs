//! A run's state, and whether it follows from its shards (I27, I45).

use sichen_core::event::{Event, Kind};

use super::{Broken, Trail, broken, check_move};
use crate::data::Fields;
use crate::verdict::{Invariant, Step, state_word};

#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub trail: Trail,
    /// How often shards of it were asked for their slots.
    pub recalls: u64,
    pub state: &'static str,
    /// 0 while not known: the log begins in the middle of the run, and no event has said it.
    pub round: u32,
    pub stop: Option<&'static str>,
    /// Shards written, the plan step among them.
    pub written: u32,
    pub open: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub cancelled: u32,
    /// The plan step is written and open, or has succeeded: it is no shard of the sums.
    pub plan: bool,
    /// A shard was reported or known in part, so that sums can't be trusted.
    pub unsure: bool,
    /// Settled, but the log has not yet closed all of its shards.
    pub pending: Option<Step>,
    /// Shards' events come in order of commits too, so that each round can be judged as it closes.
    pub ordered: bool,
    /// Settled on counts that had to match and did not.
    pub counts_differ: bool,
}

const STOPS: &[&str] = &["cancel", "deadline", "fatal"];

impl Run {
    pub fn adopt(e: &Event) -> Self {
        let mut run = Self {
            state: state_word(&e.to),
            unsure: true,
            ..Self::default()
        };
        run.trail.partial = true;
        run.trail.push(e);
        run
    }

    /// Takes the next event. `ordered`: the log's order between entities is that of commits.
    pub fn apply(&mut self, e: &Event, data: &Fields, ordered: bool) -> Result<(), Broken> {
        self.trail.check(e)?;
        self.ordered = ordered;
        if e.kind == Kind::RunReopened && (!ordered || self.unsure) && self.pending.is_some() {
            // Its shards' last events may still be to come: only its last round is judged.
            self.pending = None;
        }
        if self.pending.is_some() && e.kind == Kind::RunReopened {
            return broken(
                Invariant::I27,
                format!("reopened while {} of its shards are open", self.open),
            );
        }
        check_move("run", self.state, e)?;
        match e.kind {
            Kind::RunCreated => {
                self.round = 1;
                self.written = data.total.unwrap_or(0);
                self.plan = data.plan.unwrap_or(false);
                self.open = self.written.max(u32::from(self.plan));
                self.unsure |= data.total.is_none();
            }
            Kind::RunExpanded => {
                let total = data.total.unwrap_or(0);
                self.written += total;
                self.open += total;
                self.plan = true;
            }
            Kind::StopRequested => {
                let stop = data.stop.as_deref().unwrap_or(&e.cause);
                self.stop = self.stop.or(STOPS.iter().find(|w| **w == stop).copied());
            }
            Kind::RunReopened => {
                let round = data.round.unwrap_or(self.round + 1);
                if self.round != 0 && round != self.round + 1 {
                    return broken(
                        Invariant::I45,
                        format!("round {round} follows round {}", self.round),
                    );
                }
                self.round = round;
                self.stop = None;
            }
            _ => {}
        }
        self.state = state_word(&e.to);
        self.trail.push(e);
        if self.is_closed() {
            self.counts_differ = data.counts_match == Some(false);
            self.pending = self.trail.last;
            return if ordered { self.judge() } else { Ok(()) };
        }
        Ok(())
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, "succeeded" | "partial" | "failed" | "cancelled")
    }

    /// A shard of it moved from `before` to `after`.
    pub fn shard_moved(&mut self, is_plan: bool, before: &str, after: &str) -> Result<(), Broken> {
        self.count(is_plan, before, false);
        self.count(is_plan, after, true);
        if self.ordered { self.judge() } else { Ok(()) }
    }

    fn count(&mut self, is_plan: bool, state: &str, add: bool) {
        let field = match state {
            "succeeded" if is_plan => return,
            "succeeded" => &mut self.succeeded,
            "failed" => &mut self.failed,
            "cancelled" => &mut self.cancelled,
            _ => &mut self.open,
        };
        *field = if add {
            *field + 1
        } else {
            field.saturating_sub(1)
        };
    }

    /// Judges a settled run once the log has closed its shards.
    pub fn judge(&mut self) -> Result<(), Broken> {
        if self.pending.is_none() || self.open > 0 || self.unsure {
            return Ok(());
        }
        self.pending = None;
        let expect = self.outcome();
        if self.state == expect || (self.counts_differ && self.state == "failed") {
            return Ok(());
        }
        let message = format!(
            "settled {}, but {} succeeded, {} failed, {} cancelled{} make it {expect}",
            self.state,
            self.succeeded,
            self.failed,
            self.cancelled,
            self.stop
                .map(|s| format!(", stopped by {s}"))
                .unwrap_or_default()
        );
        broken(Invariant::I27, message)
    }

    /// The settle order, written a second time on purpose: it judges the first.
    fn outcome(&self) -> &'static str {
        let (ok, bad) = (self.succeeded, self.failed + self.cancelled);
        if self.stop == Some("cancel") && self.cancelled > 0 {
            return "cancelled";
        }
        if matches!(self.stop, Some("deadline" | "fatal")) {
            return "failed";
        }
        match (ok, bad) {
            (_, 0) => "succeeded",
            (0, _) => "failed",
            _ => "partial",
        }
    }
}
