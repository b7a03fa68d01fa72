//! Duties: whose they are (I10), and why they changed hands (I12).
//!
//! # Not here
//! What is written under them (I11: [`crate::fold::Trail`], [`Checker::event`]).

use sichen_core::event::{Event, Kind};
use sichen_core::ids::{NodeId, Term};

use super::Checker;
use super::births::COUNTED_ON;
use crate::data::Fields;
use crate::fold::{self, Broken, Trail};
use crate::verdict::{Invariant, Sight};

/// A duty as the log has it.
#[derive(Debug, Default)]
pub(super) struct Duty {
    pub trail: Trail,
    pub term: Term,
    pub node: Option<NodeId>,
}

impl Duty {
    /// I12: whether it may be taken over for this reason.
    fn is_lawful(&self, evidence: &str) -> Result<(), Broken> {
        let lawful = match evidence {
            "first" => self.term == Term(0),
            "released" => self.term > Term(0) && self.node.is_none(),
            "expired" => self.node.is_some(),
            _ => false,
        };
        if lawful || self.trail.partial {
            return Ok(());
        }
        let owner = self
            .node
            .map_or("nobody".to_owned(), |node| format!("node {node}"));
        let message = format!(
            "taken over as {evidence:?} after term {} of {owner}",
            self.term
        );
        fold::broken(Invariant::I12, message)
    }
}

/// I12: a takeover says when its owner's lease ended, and that was before it.
fn lease_is_over(event: &Event, data: &Fields) -> Result<(), Broken> {
    match data.lease_end {
        Some(end) if end > event.at => fold::broken(
            Invariant::I12,
            format!("taken over as expired, its owner's lease ends at {end}"),
        ),
        _ => Ok(()),
    }
}

impl Checker {
    /// I12, of a takeover: the lease was over, and who takes was not found dead long before.
    fn judge_takeover(&mut self, event: &Event, data: &Fields) -> Result<(), Broken> {
        if let Some(node) = data.node.map(NodeId)
            && let Some(found) = self.found_over.get(&node)
            && event.at.duration_since(*found) > COUNTED_ON
        {
            let message = format!("taken by node {node}, whose lease was found over at {found}");
            return fold::broken(Invariant::I12, message);
        }
        if event.cause != "expired" {
            return Ok(());
        }
        if data.lease_end.is_none() {
            let reason = "a takeover does not say when the lease before it ended";
            self.unknown
                .entry(Invariant::I12)
                .or_insert_with(|| reason.to_owned());
        }
        lease_is_over(event, data)
    }

    pub(super) fn apply_duty(
        &mut self,
        key: &str,
        event: &Event,
        data: &Fields,
    ) -> Result<(), Broken> {
        if event.kind == Kind::DutyAcquired {
            self.judge_takeover(event, data)?;
        }
        let duty = self.duties.entry(key.to_owned()).or_default();
        let unknown = event.ver > 1 && self.options.partial && duty.trail.ver == 0;
        if event.kind == Kind::DutyAcquired && !unknown {
            duty.is_lawful(&event.cause)?;
        }
        if unknown {
            // Its release does not say which term it ends.
            duty.trail.partial = event.kind != Kind::DutyAcquired;
        } else if event.kind == Kind::DutyAcquired {
            duty.trail.partial = false;
        }
        let term = data.term.map_or(duty.term, Term);
        if event.kind == Kind::DutyAcquired {
            if term <= duty.term {
                let message = format!("term {term} follows term {}", duty.term);
                return fold::broken(Invariant::I10, message);
            }
            if let Some(before) = duty.node.filter(|_| event.cause == "expired") {
                self.found_over.entry(before).or_insert(event.at);
            }
            duty.term = term;
            duty.node = data.node.map(NodeId);
        } else {
            duty.node = None;
        }
        duty.trail.push(event);
        if term.0 > 1 {
            self.saw(Sight::TermChanged);
        }
        Ok(())
    }
}
