//! Stretches of constant offset in a time zone.
//!
//! # Invariants
//! - Neighbouring stretches differ in offset; changes of a zone's abbreviation alone are passed over.
//! - All seconds: offsets and transitions of the zone database are whole seconds.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cron::work::step;

/// The instants `[start, end)` at which a zone has the offset `offset`, all in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub start: i64,
    pub end: i64,
    pub offset: i64,
    /// The offset just before `start`, where there is one.
    pub offset_before: Option<i64>,
}

/// First and last second that the engine answers for, a day inside the range of [`Timestamp`] so
/// that civil arithmetic never leaves it.
pub(crate) const FIRST: i64 = -377_705_023_201 + 2 * 86_400;
pub(crate) const LAST: i64 = 253_402_207_200 - 2 * 86_400;

impl Stretch {
    /// The stretch that holds the second `at`, which lies within `FIRST..=LAST`.
    pub(crate) fn at(zone: &TimeZone, at: i64) -> Stretch {
        let offset = offset(zone, at);
        let (start, offset_before) = start(zone, at, offset);
        Stretch {
            start,
            end: end(zone, at, offset),
            offset,
            offset_before,
        }
    }

    /// The part of a stretch from `at` on, for callers to whom its start is nothing: cheaper.
    pub(crate) fn from(zone: &TimeZone, at: i64) -> Stretch {
        let offset = offset(zone, at);
        Stretch {
            start: at,
            end: end(zone, at, offset),
            offset,
            offset_before: None,
        }
    }

    /// The stretch that begins where this one ends.
    pub(crate) fn next(&self, zone: &TimeZone) -> Option<Stretch> {
        if self.end > LAST {
            return None;
        }
        let offset = offset(zone, self.end);
        Some(Stretch {
            start: self.end,
            end: end(zone, self.end, offset),
            offset,
            offset_before: Some(self.offset),
        })
    }

    /// The stretch that ends where this one begins.
    pub(crate) fn prev(&self, zone: &TimeZone) -> Option<Stretch> {
        let offset = self.offset_before?;
        let at = self.start - 1;
        let (start, offset_before) = start(zone, at, offset);
        Some(Stretch {
            start,
            end: self.start,
            offset,
            offset_before,
        })
    }
}

pub(crate) fn offset(zone: &TimeZone, at: i64) -> i64 {
    i64::from(zone.to_offset(instant(at)).seconds())
}

fn end(zone: &TimeZone, at: i64, offset: i64) -> i64 {
    zone.following(instant(at))
        .inspect(|_| step())
        .find(|transition| i64::from(transition.offset().seconds()) != offset)
        .map_or(i64::MAX, |transition| transition.timestamp().as_second())
}

/// Start of the stretch and the offset before it.
fn start(zone: &TimeZone, at: i64, offset: i64) -> (i64, Option<i64>) {
    // Strictly earlier than the argument, hence one later than `at`.
    for transition in zone.preceding(instant(at + 1)) {
        step();
        let start = transition.timestamp().as_second();
        if start <= FIRST {
            break;
        }
        let before = self::offset(zone, start - 1);
        if before != offset {
            return forward(zone, start, before, at);
        }
    }
    (i64::MIN, None)
}

/// The last change of the offset from `start` on that is not after `at`, and the offset before it.
///
/// The way back alone does not do: behind a zone's last listed change the library goes by the zone's
/// rule line, also to a time that lies before that change (America/Ciudad_Juarez in the winter of 2022).
fn forward(zone: &TimeZone, start: i64, before: i64, at: i64) -> (i64, Option<i64>) {
    let (mut start, mut before) = (start, before);
    for transition in zone.following(instant(start)) {
        step();
        let next = transition.timestamp().as_second();
        if next > at {
            break;
        }
        let last = self::offset(zone, next - 1);
        if i64::from(transition.offset().seconds()) != last {
            (start, before) = (next, last);
        }
    }
    (start, Some(before))
}

/// The instant of a second within the engine's range; what lies outside is held to its edge.
pub(crate) fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second.clamp(FIRST, LAST))
        .expect("the engine's range lies within jiff's")
}

/// Whole seconds, rounded down.
pub(crate) fn floor(at: Timestamp) -> i64 {
    at.as_second() - i64::from(at.subsec_nanosecond() < 0)
}

/// Whole seconds, rounded up.
pub(crate) fn ceil(at: Timestamp) -> i64 {
    at.as_second() + i64::from(at.subsec_nanosecond() > 0)
}

/// Whole seconds of a length, rounded up.
pub(crate) fn ceil_length(length: SignedDuration) -> i64 {
    length.as_secs() + i64::from(length.subsec_nanos() > 0)
}
