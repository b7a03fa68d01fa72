//! Entities as the log says they are.
//!
//! Each fold takes one entity's events in order of version and says which promise an event breaks.
//!
//! # Not here
//! Order between entities, rows, acknowledgements ([`crate::checker`]).

pub(crate) mod backfill;
pub(crate) mod job;
pub(crate) mod run;
pub(crate) mod shard;

use sichen_core::event::Event;
use sichen_core::ids::Term;

use crate::verdict::{Invariant, Step};

/// A promise an event broke, before it has its entity and witness.
#[derive(Debug)]
pub(crate) struct Broken(pub Invariant, pub String);

pub(crate) fn broken<T>(invariant: Invariant, message: String) -> Result<T, Broken> {
    Err(Broken(invariant, message))
}

/// What every fold keeps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail {
    /// Version after the last event; 0 before the first.
    pub ver: u32,
    /// The last event.
    pub last: Option<Step>,
    /// Reported already, or known only in part: judge nothing more.
    pub closed: bool,
    /// Its first events lie before the history's beginning.
    pub partial: bool,
    trigger_term: Term,
    pool_term: Term,
}

impl Trail {
    /// What holds for every entity: time (I48) and terms (I11) never go back.
    pub fn check(&self, e: &Event) -> Result<(), Broken> {
        if let Some(last) = self.last
            && e.at < last.at
        {
            return broken(
                Invariant::I48,
                format!("time goes back from {} to {}", last.at, e.at),
            );
        }
        if let Some((key, term)) = &e.duty {
            let seen = if key.starts_with("pool/") {
                self.pool_term
            } else {
                self.trigger_term
            };
            if *term < seen {
                return broken(
                    Invariant::I11,
                    format!("written under term {term} of {key} after term {seen}"),
                );
            }
        }
        Ok(())
    }

    pub fn push(&mut self, e: &Event) {
        self.ver = e.ver;
        self.last = Some(Step::of(e));
        if let Some((key, term)) = &e.duty {
            if key.starts_with("pool/") {
                self.pool_term = *term;
            } else {
                self.trigger_term = *term;
            }
        }
    }
}

/// The moves of I45: the state before must be the folded one, and the move in core's table.
pub(crate) fn check_move(entity: &str, state: &str, e: &Event) -> Result<(), Broken> {
    if e.from != state {
        let message = format!(
            "{} says it came from {:?}, the log says {state:?}",
            e.kind, e.from
        );
        return broken(Invariant::I45, message);
    }
    if !sichen_core::lifecycle::is_legal(entity, &e.from, e.kind.word(), &e.to) {
        return broken(
            Invariant::I45,
            format!("{:?} -> {:?} by {} is no legal move", e.from, e.to, e.kind),
        );
    }
    Ok(())
}
