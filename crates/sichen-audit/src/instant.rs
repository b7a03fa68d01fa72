//! Instants and lengths of time, from text.
//!
//! # Not here
//! Forms that no document of ours has; they are not understood.

use crate::DAY;
use crate::days::Date;
use crate::field::digits;

/// Seconds since 1970-01-01T00:00:00Z (or a length), rounded down, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant {
    pub second: i64,
    pub nanosecond: i64,
}

impl Instant {
    /// The first whole second that is not before it.
    pub fn rounded_up(self) -> i64 {
        self.second + i64::from(self.nanosecond > 0)
    }
}

/// Reads RFC 3339, such as `2026-08-30T00:00:00.5+08:00`.
pub(crate) fn instant(text: &str) -> Option<Instant> {
    let text = text.trim();
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let [year, month, day] = parts(date, '-')?;
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone_at);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = parts(time, ':')?;
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let date = date_of(year, month, day)?;
    let local = date.number * DAY + hour * 3_600 + minute * 60 + second.min(59);
    Some(Instant {
        second: local - offset(zone)?,
        nanosecond: nanoseconds(fraction)?,
    })
}

fn date_of(year: i64, month: i64, day: i64) -> Option<Date> {
    // A guess that is too early by a few days at most, then day by day.
    let mut date = Date::of((year - 1970) * 365 + (year - 1970) / 5 - 400);
    while (date.year, date.month, date.day) < (year, month, day) {
        date = date.next();
    }
    ((date.year, date.month, date.day) == (year, month, day)).then_some(date)
}

fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits_of = zone[1..].replace(':', "");
    let mut total = 0;
    for (n, unit) in [3_600, 60, 1].into_iter().enumerate() {
        match digits_of.get(2 * n..2 * n + 2) {
            Some(two) => total += digits(two)? * unit,
            None if digits_of.len() == 2 * n && n > 0 => break,
            None => return None,
        }
    }
    (digits_of.len() <= 6).then_some(sign * total)
}

fn parts(text: &str, sign: char) -> Option<[i64; 3]> {
    let all: Vec<i64> = text.split(sign).map(digits).collect::<Option<_>>()?;
    all.try_into().ok()
}

fn nanoseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    let nine: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    digits(&nine)
}

/// Reads a length of time such as `1h 30m`, `90s` or `500ms`.
pub(crate) fn length(text: &str) -> Option<Instant> {
    let mut nanoseconds = 0_i128;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at(unit_at);
        let end = tail
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit: i128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        nanoseconds += i128::from(digits(number)?) * unit;
        rest = tail.trim_start_matches([' ', ',']);
    }
    Some(Instant {
        second: i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?,
        nanosecond: i64::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?,
    })
}

#[cfg(test)]
#[path = "instant_tests.rs"]
mod tests;
