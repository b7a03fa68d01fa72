//! Judges a recorded history: does the event log keep the promises?
//!
//! Feed a [`Checker`] with events (in log order), the rows as they are at the end, and what clients
//! and workers were told; [`Checker::finish`] gives a [`Verdict`]. Simulation, drills and
//! `sichen verify` all use this one.
//!
//! # Invariants
//! - Streaming by entity: memory grows with entities, not with events.
//! - An entity is reported once, for the first promise it broke; what follows from that is not
//!   reported again.
//! - An empty history proves nothing: [`Options::minimums`] say what must have been seen.
//!
//! # Not here
//! Reading a live database (the caller pages through the store port), the rules themselves
//! (`sichen-core`; outcomes are recomputed here by a second implementation).

pub mod audit;
mod checker;
mod data;
mod fold;
pub mod jsonl;
mod verdict;

pub use checker::{Acknowledged, Checker, FinalRow, Options, Oracle, check_dump};
pub use verdict::{Invariant, Outcome, Sight, Step, Unknown, Verdict, Violation};
