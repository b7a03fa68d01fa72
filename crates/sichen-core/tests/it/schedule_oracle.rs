//! A second, slow way from an expression to its instants.
//!
//! It imports nothing of the project. It reads the text by itself, the bytes of the built-in zone
//! database by itself (RFC 9636, with the rule line at their end), and walks a window of time minute
//! by minute or second by second with tables of booleans. Slowness is its strength: there is no
//! search that could skip anything.

use std::collections::{BTreeSet, HashSet};

/// What a fixed time does in a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowGap {
    FirstValid,
    Skip,
    Shift,
}

/// A zone as the row of its changes.
#[derive(Debug, Clone)]
pub struct SlowZone {
    /// Offset before the first change.
    first: i64,
    /// Instants and the offset from then on; only true changes.
    pub changes: Vec<(i64, i64)>,
}

impl SlowZone {
    /// Reads a zone's bytes, and expands its rule line through the year 2100.
    pub fn read(bytes: &[u8]) -> SlowZone {
        let mut at = header_end(bytes, 0, 4);
        // The second block has 64-bit times.
        let counts = header(bytes, at);
        at += 44;
        let times: Vec<i64> = (0..counts.time).map(|n| be64(bytes, at + 8 * n)).collect();
        at += 8 * counts.time;
        let kinds: Vec<usize> = bytes[at..at + counts.time]
            .iter()
            .map(|kind| usize::from(*kind))
            .collect();
        at += counts.time;
        let offsets: Vec<i64> = (0..counts.kind).map(|n| be32(bytes, at + 6 * n)).collect();
        let footer = header_end(bytes, at - counts.time * 9 - 44, 8);
        let rule = std::str::from_utf8(&bytes[footer + 1..bytes.len() - 1])
            .expect("the rule line is text");
        let mut all: Vec<(i64, i64)> = times
            .iter()
            .zip(&kinds)
            .map(|(time, kind)| (*time, offsets[*kind]))
            .collect();
        let last = all.last().map_or(i64::MIN, |(time, _)| *time);
        all.extend(
            rule_changes(rule)
                .into_iter()
                .filter(|(time, _)| *time > last),
        );
        let first = offsets[0];
        let mut changes: Vec<(i64, i64)> = Vec::new();
        for (time, offset) in all {
            if changes.last().map_or(first, |(_, before)| *before) != offset {
                changes.push((time, offset));
            }
        }
        SlowZone { first, changes }
    }

    fn offset(&self, at: i64) -> i64 {
        let later = self.changes.partition_point(|(time, _)| *time <= at);
        if later == 0 {
            self.first
        } else {
            self.changes[later - 1].1
        }
    }

    fn next_change(&self, after: i64) -> Option<i64> {
        let next = self.changes.partition_point(|(time, _)| *time <= after);
        self.changes.get(next).map(|(time, _)| *time)
    }
}

struct Counts {
    time: usize,
    kind: usize,
}

fn header(bytes: &[u8], at: usize) -> Counts {
    assert_eq!(&bytes[at..at + 4], b"TZif");
    Counts {
        time: be32(bytes, at + 32) as usize,
        kind: be32(bytes, at + 36) as usize,
    }
}

/// Where a block ends whose times have `width` bytes.
fn header_end(bytes: &[u8], at: usize, width: usize) -> usize {
    let count = |n: usize| be32(bytes, at + 20 + 4 * n) as usize;
    let (utc, standard, leap, time, kind, text) =
        (count(0), count(1), count(2), count(3), count(4), count(5));
    at + 44 + time * width + time + kind * 6 + text + leap * (width + 4) + standard + utc
}

fn be32(bytes: &[u8], at: usize) -> i64 {
    i64::from(i32::from_be_bytes(
        bytes[at..at + 4].try_into().expect("four bytes"),
    ))
}

fn be64(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The changes that a rule line such as `EST5EDT,M3.2.0,M11.1.0` makes from 1970 through 2100.
fn rule_changes(rule: &str) -> Vec<(i64, i64)> {
    let mut parts = rule.split(',');
    let names = parts.next().unwrap_or_default();
    let (standard, rest) = name_and_offset(names);
    let Some(standard) = standard else {
        return Vec::new();
    };
    let (Some(start), Some(end)) = (parts.next(), parts.next()) else {
        return vec![(0, standard)];
    };
    let summer = match name_and_offset(rest) {
        (Some(summer), _) => summer,
        (None, _) => standard + 3_600,
    };
    let mut changes = Vec::new();
    for year in 1970..=2100 {
        changes.push((rule_day(start, year) - standard, summer));
        changes.push((rule_day(end, year) - summer, standard));
    }
    changes.sort_unstable();
    changes
}

/// The offset east of UTC behind a zone's name, if one is given, and what follows.
fn name_and_offset(text: &str) -> (Option<i64>, &str) {
    let rest = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map_or("", |(_, rest)| rest),
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let end = rest
        .find(|c: char| c.is_ascii_alphabetic() || c == '<')
        .unwrap_or(rest.len());
    let (offset, tail) = rest.split_at(end);
    if offset.is_empty() {
        (None, tail)
    } else {
        (Some(-clock(offset)), tail)
    }
}

fn clock(text: &str) -> i64 {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.trim_start_matches('+')),
    };
    let mut unit = 3_600;
    let mut total = 0;
    for part in digits.split(':') {
        total += part.parse::<i64>().expect("a number") * unit;
        unit /= 60;
    }
    sign * total
}

/// Local seconds of a rule day `M3.2.0/2` in a year.
fn rule_day(rule: &str, year: i64) -> i64 {
    let (day, time) = rule
        .split_once('/')
        .map_or((rule, 7_200), |(day, time)| (day, clock(time)));
    let numbers: Vec<i64> = day
        .strip_prefix('M')
        .expect("only month rules")
        .split('.')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let (month, week, weekday) = (numbers[0], numbers[1], numbers[2]);
    let matching: Vec<i64> = (1..=month_days(year, month))
        .map(|day| days_before(year, month) + day - 1)
        .filter(|days| (days + 4).rem_euclid(7) == weekday)
        .collect();
    let day = if week == 5 {
        matching[matching.len() - 1]
    } else {
        matching[(week - 1) as usize]
    };
    day * 86_400 + time
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_days(year: i64, month: i64) -> i64 {
    [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ][(month - 1) as usize]
}

/// Days from 1970-01-01 to the first of a month, counted year by year.
fn days_before(year: i64, month: i64) -> i64 {
    let years: i64 = if year >= 1970 {
        (1970..year).map(|year| 365 + i64::from(leap(year))).sum()
    } else {
        -(year..1970)
            .map(|year| 365 + i64::from(leap(year)))
            .sum::<i64>()
    };
    years + (1..month).map(|month| month_days(year, month)).sum::<i64>()
}

/// One moment of a window: the instant and what a wall clock shows.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub at: i64,
    pub local: i64,
    year: i64,
    month: i64,
    day: i64,
    weekday: i64,
    second_of_day: i64,
    /// The wall clock has shown this before.
    again: bool,
}

fn moment(at: i64, local: i64) -> Moment {
    let days = local.div_euclid(86_400);
    let mut year = 1970 + days / 366;
    while days_before(year, 1) > days {
        year -= 1;
    }
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days_before(year, month + 1) <= days {
        month += 1;
    }
    Moment {
        at,
        local,
        year,
        month,
        day: days - days_before(year, month) + 1,
        weekday: (days + 4).rem_euclid(7),
        second_of_day: local.rem_euclid(86_400),
        again: false,
    }
}

/// Every whole local minute (or second) of a window, and the same for the local times that gaps
/// leave out.
///
/// A repeated local time is known as such if it was first shown up to `memory` before the window.
#[derive(Debug, Clone)]
pub struct Window {
    pub from: i64,
    pub to: i64,
    pub moments: Vec<Moment>,
    /// The change, the offset before it, and the moments that never were.
    gaps: Vec<(i64, i64, Vec<Moment>)>,
}

impl Window {
    pub fn new(zone: &SlowZone, from: i64, to: i64, memory: i64, step: i64) -> Window {
        let mut window = Window {
            from,
            to,
            moments: Vec::new(),
            gaps: Vec::new(),
        };
        let mut at = from - memory;
        let mut known: Option<Moment> = None;
        let mut shown = HashSet::new();
        while at < to {
            let local = at + zone.offset(at);
            let past = local.rem_euclid(step);
            if past == 0 {
                let again = !shown.insert(local);
                // The date is worked out once a day, which is slow enough.
                let next = match known {
                    Some(known) if known.local.div_euclid(86_400) == local.div_euclid(86_400) => {
                        Moment {
                            at,
                            local,
                            second_of_day: local.rem_euclid(86_400),
                            ..known
                        }
                    }
                    _ => moment(at, local),
                };
                known = Some(next);
                if at >= from {
                    window.moments.push(Moment { again, ..next });
                }
            }
            let wait = step - past;
            at = match zone.next_change(at) {
                Some(change) if change < at + wait => change,
                _ => at + wait,
            };
        }
        for &(change, after) in zone
            .changes
            .iter()
            .filter(|(change, _)| (from - memory..to).contains(change))
        {
            let before = zone.offset(change - 1);
            let missing = (change + before..change + after)
                .filter(|local| local.rem_euclid(step) == 0)
                .map(|local| moment(change, local))
                .collect();
            if after > before {
                window.gaps.push((change, before, missing));
            }
        }
        window
    }
}

/// An expression as tables of booleans.
#[derive(Debug)]
pub struct SlowCron {
    second: Vec<bool>,
    minute: Vec<bool>,
    hour: Vec<bool>,
    month: Vec<bool>,
    day: String,
    weekday: String,
    both: bool,
    interval: bool,
}

impl SlowCron {
    /// Reads five fields, or six with seconds first.
    pub fn read(text: &str) -> SlowCron {
        let fields: Vec<&str> = text.split(' ').collect();
        let (second, fields) = if fields.len() == 6 {
            (fields[0], &fields[1..])
        } else {
            ("0", &fields[..])
        };
        let has_seconds = text.split(' ').count() == 6;
        let (day, weekday) = (fields[2], fields[4]);
        let open = |field: &str| {
            if has_seconds {
                field == "*"
            } else {
                field.starts_with('*')
            }
        };
        SlowCron {
            second: table(second, 0, 59),
            minute: table(fields[0], 0, 59),
            hour: table(fields[1], 0, 23),
            month: table(fields[3], 1, 12),
            day: day.to_owned(),
            weekday: weekday.to_owned(),
            both: open(day) || open(weekday),
            interval: fields[0].starts_with('*') || fields[1].starts_with('*'),
        }
    }

    fn fits(&self, moment: &Moment) -> bool {
        let time = moment.second_of_day;
        self.hour[(time / 3_600) as usize]
            && self.minute[(time / 60 % 60) as usize]
            && self.second[(time % 60) as usize]
            && self.month[moment.month as usize]
            && self.day_fits(moment)
    }

    fn day_fits(&self, moment: &Moment) -> bool {
        let of_month = self.day.split(',').any(|item| month_day_fits(item, moment));
        let of_week = self
            .weekday
            .split(',')
            .any(|item| weekday_fits(item, moment));
        if self.both {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }

    /// All instants of a window, by looking at every moment of it.
    pub fn instants(&self, window: &Window, gap: SlowGap, fold_both: bool) -> Vec<i64> {
        let mut found = BTreeSet::new();
        for moment in &window.moments {
            if (self.interval || fold_both || !moment.again) && self.fits(moment) {
                found.insert(moment.at);
            }
        }
        if !self.interval {
            for (change, before, missing) in &window.gaps {
                for moment in missing.iter().filter(|moment| self.fits(moment)) {
                    match gap {
                        SlowGap::FirstValid => found.insert(*change),
                        SlowGap::Shift => found.insert(moment.local - before),
                        SlowGap::Skip => false,
                    };
                }
            }
        }
        found
            .into_iter()
            .filter(|at| (window.from..window.to).contains(at))
            .collect()
    }
}

/// Which numbers a plain field names, by trying each.
fn table(field: &str, min: i64, max: i64) -> Vec<bool> {
    (0..=max)
        .map(|value| value >= min && field.split(',').any(|item| plain(item, value, min, max)))
        .collect()
}

fn plain(item: &str, value: i64, min: i64, max: i64) -> bool {
    let (range, step) = item.split_once('/').unwrap_or((item, "1"));
    let (low, high) = match range.split_once('-') {
        _ if range == "*" => (min, max),
        Some((low, high)) => (number(low), number(high)),
        None => (number(range), number(range)),
    };
    (low..=high).contains(&value) && (value - low) % number(step) == 0
}

fn number(text: &str) -> i64 {
    let names = [
        "sun", "mon", "tue", "wed", "thu", "fri", "sat", "jan", "feb", "mar", "apr", "may", "jun",
        "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    match names
        .iter()
        .position(|name| text.eq_ignore_ascii_case(name))
    {
        Some(at @ 0..7) => at as i64,
        Some(at) => at as i64 - 6,
        None => text.parse().expect("a number"),
    }
}

fn month_day_fits(item: &str, moment: &Moment) -> bool {
    let last = month_days(moment.year, moment.month);
    let nearest = |target: i64| {
        if !(1..=last).contains(&target) {
            return false;
        }
        let first_weekday = (moment.weekday - (moment.day - 1)).rem_euclid(7);
        // Of the working days of the month the nearest one; of two equally near there is never a choice.
        let working = (1..=last).filter(|day| ![0, 6].contains(&((first_weekday + day - 1) % 7)));
        working.min_by_key(|day| (day - target).abs()) == Some(moment.day)
    };
    match (item.strip_prefix('L'), item.strip_suffix('W')) {
        (Some(""), _) => moment.day == last,
        (Some("W"), _) => nearest(last),
        (Some(back), None) => moment.day == last - number(&back[1..]),
        (Some(_), Some(body)) => nearest(last - number(&body[2..])),
        (None, Some(day)) => nearest(number(day)),
        (None, None) => plain(item, moment.day, 1, 31),
    }
}

fn weekday_fits(item: &str, moment: &Moment) -> bool {
    let last = month_days(moment.year, moment.month);
    if let Some((day, nth)) = item.split_once('#') {
        return number(day) % 7 == moment.weekday && (moment.day + 6) / 7 == number(nth);
    }
    if let Some(day) = item.strip_suffix('L') {
        return number(day) % 7 == moment.weekday && moment.day + 7 > last;
    }
    plain(item, moment.weekday, 0, 6)
        || (moment.weekday == 0 && !item.starts_with('*') && plain(item, 7, 0, 7))
}
