//! A second, slow way from a schedule's text to its instants.
//!
//! It exists to be another opinion: `sichen audit` compares it with what was recorded, the importers
//! with what they wrote, the history checker asks it which instants a job has, and the tests of
//! `sichen-core` run it against the engine. It reads the text by itself, the bytes of the built-in
//! zone database by itself (RFC 9636, with the rule line at their end), and walks days, hours and
//! minutes with tables of booleans. Slowness is its strength: there is no search that could skip
//! anything.
//!
//! # Invariants
//! - It names no other crate of the project and no library of dates and zones; `cargo xtask tidy`
//!   checks that. The bytes of the zone database are all that it shares with the engine.
//! - All instants are whole seconds since 1970-01-01T00:00:00Z; only what was recorded is told in
//!   microseconds, because a record may stand anywhere.
//! - It answers for a text, or says why it can't; it never guesses.
//!
//! # Not here
//! Deciding what runs (catch-up, overlap, deadlines): those are answers about instants, and an
//! instant with any answer is accounted for.

mod calendar;
mod days;
mod document;
mod field;
mod instant;
pub mod ledger;
mod text;
mod timetable;
mod walk;
mod zone;

pub use calendar::{Calendar, Filters, Kept, Use};
pub use days::Date;
pub use document::{Shelf, no_calendars, timetables};
pub use text::{Dialect, Expression, Reading};
pub use timetable::{Fold, Gap, Rule, Timetable, hash_of_key};
pub use walk::Instants;
pub use zone::Zone;

/// Seconds of a day on a wall clock that is never changed.
pub(crate) const DAY: i64 = 86_400;
