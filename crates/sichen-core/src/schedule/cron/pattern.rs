//! The days and times that an expression names, as bit sets, and the search over them.
//!
//! Everything here is civil: seconds since 1970-01-01T00:00:00 on a wall clock that never
//! changes. Zones, gaps and folds belong to `super::search`.
//!
//! # Invariants
//! - Every search ends: it looks at no more than [`MAX_MONTHS`] months, which is a whole
//!   400-year cycle of the calendar, after which days and weekdays repeat exactly.
//! - `next` and `prev` are inclusive and agree with `count`.

use super::work::step;

pub(crate) const DAY: i64 = 86_400;
/// 400 years and one month.
const MAX_MONTHS: u32 = 4_801;

/// How the two day fields combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DayRule {
    Both,
    Either,
}

/// Days of the month. Bit `d` of `days` is day `d`; bit `n` of the others is `n` days before the
/// last one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MonthDays {
    pub days: u32,
    pub nearest: u32,
    pub before_last: u32,
    pub nearest_before_last: u32,
}

/// Days of the week, 0 = Sunday. Bit `5 * d + k - 1` of `nth` is the `k`-th weekday `d`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WeekDays {
    pub days: u8,
    pub last: u8,
    pub nth: u64,
}

/// Years 1970 to 2099.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Years(pub [u64; 3]);

impl Years {
    pub(crate) fn has(&self, year: i64) -> bool {
        (1970..=2099).contains(&year) && {
            let at = (year - 1970) as usize;
            self.0[at / 64] >> (at % 64) & 1 == 1
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u32,
    pub month_days: MonthDays,
    pub months: u16,
    pub week_days: WeekDays,
    pub years: Option<Years>,
    pub day_rule: DayRule,
}

/// A year, a month (1 to 12), its number of days and the weekday of its first (0 = Sunday).
#[derive(Debug, Clone, Copy)]
struct Month {
    year: i64,
    month: u32,
    len: u32,
    first_weekday: u32,
    /// Day number of the first, from 1970-01-01.
    first_day: i64,
}

impl Month {
    fn new(year: i64, month: u32) -> Month {
        let first_day = days_from_civil(year, month, 1);
        Month {
            year,
            month,
            len: month_len(year, month),
            first_weekday: (first_day + 4).rem_euclid(7) as u32,
            first_day,
        }
    }

    fn next(self) -> Month {
        let (year, month) = if self.month == 12 {
            (self.year + 1, 1)
        } else {
            (self.year, self.month + 1)
        };
        Month {
            year,
            month,
            len: month_len(year, month),
            first_weekday: (self.first_weekday + self.len) % 7,
            first_day: self.first_day + i64::from(self.len),
        }
    }

    fn prev(self) -> Month {
        let (year, month) = if self.month == 1 {
            (self.year - 1, 12)
        } else {
            (self.year, self.month - 1)
        };
        let len = month_len(year, month);
        Month {
            year,
            month,
            len,
            first_weekday: (self.first_weekday + 35 - len) % 7,
            first_day: self.first_day - i64::from(len),
        }
    }

    fn weekday(self, day: u32) -> u32 {
        (self.first_weekday + day - 1) % 7
    }
}

impl Pattern {
    /// The first matching civil second at or after `from`, or `None` if there is none within 400
    /// years.
    pub(crate) fn next(&self, from: i64) -> Option<i64> {
        let day = from.div_euclid(DAY);
        let (year, number, of_month) = civil_from_days(day);
        let mut month = Month::new(year, number);
        let mut days = self.days_in(month);
        if days >> of_month & 1 == 1
            && let Some(time) = self.next_time(from.rem_euclid(DAY))
        {
            return Some(day * DAY + time);
        }
        days = clear_through(days, of_month);
        for _ in 0..MAX_MONTHS {
            step();
            if days != 0 {
                let found = month.first_day + i64::from(days.trailing_zeros()) - 1;
                return Some(found * DAY + self.first_time());
            }
            month = self.skip_forward(month.next())?;
            days = self.days_in(month);
        }
        None
    }

    /// The last matching civil second at or before `to`.
    pub(crate) fn prev(&self, to: i64) -> Option<i64> {
        let day = to.div_euclid(DAY);
        let (year, number, of_month) = civil_from_days(day);
        let mut month = Month::new(year, number);
        let mut days = self.days_in(month);
        if days >> of_month & 1 == 1
            && let Some(time) = self.prev_time(to.rem_euclid(DAY))
        {
            return Some(day * DAY + time);
        }
        days &= (1 << of_month) - 1;
        for _ in 0..MAX_MONTHS {
            step();
            if days != 0 {
                let found = month.first_day + i64::from(31 - days.leading_zeros()) - 1;
                return Some(found * DAY + self.last_time());
            }
            month = self.skip_back(month.prev())?;
            days = self.days_in(month);
        }
        None
    }

    /// How many civil seconds in `[from, to)` match. Takes time in proportion to the months in
    /// between, never to the matches.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from.div_euclid(DAY), to.div_euclid(DAY));
        let (after, before) = (
            self.times_before(from.rem_euclid(DAY)),
            self.times_before(to.rem_euclid(DAY)),
        );
        let whole = self.days_between(first, last) * self.times_per_day();
        whole + if self.day_matches(last) { before } else { 0 }
            - if self.day_matches(first) { after } else { 0 }
    }

    /// Hands out the matching seconds in `[from, to)`, minute by minute: the minute's first second,
    /// and a bit for each second of it.
    pub(crate) fn each_minute(&self, from: i64, to: i64, mut hand_out: impl FnMut(i64, u64)) {
        for day in from.div_euclid(DAY)..=(to - 1).div_euclid(DAY) {
            if from >= to || !self.day_matches(day) {
                continue;
            }
            for hour in (0..24).filter(|hour| self.hours >> hour & 1 == 1) {
                for minute in (0..60).filter(|minute| self.minutes >> minute & 1 == 1) {
                    let start = day * DAY + join(hour, minute, 0);
                    if start + 60 <= from || start >= to {
                        continue;
                    }
                    let mut seconds = self.seconds;
                    if start < from {
                        seconds = seconds >> (from - start) << (from - start);
                    }
                    if to < start + 60 {
                        seconds &= (1 << (to - start)) - 1;
                    }
                    hand_out(start, seconds);
                }
            }
        }
    }

    /// Whether no civil date ever matches. Exact: looks at a whole cycle of the calendar, or at
    /// each of the years named.
    pub(crate) fn is_never(&self) -> bool {
        let start = match &self.years {
            Some(_) => 1970,
            None => 2000,
        };
        let mut month = Month::new(start, 1);
        for _ in 0..400 * 12 {
            if self.days_in(month) != 0 {
                return false;
            }
            month = month.next();
        }
        true
    }

    pub(crate) fn times_per_day(&self) -> u64 {
        u64::from(self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones())
    }

    /// The matching seconds of a day, by its number; none if the day does not match.
    pub(crate) fn times_of(&self, day: i64) -> Vec<i64> {
        let mut times = Vec::new();
        if !self.day_matches(day) {
            return times;
        }
        let mut from = 0;
        while let Some(time) = (from < DAY).then(|| self.next_time(from)).flatten() {
            times.push(time);
            from = time + 1;
        }
        times
    }

    pub(crate) fn day_matches(&self, day: i64) -> bool {
        let (year, month, of_month) = civil_from_days(day);
        self.days_in(Month::new(year, month)) >> of_month & 1 == 1
    }

    /// Matching days in `[from, to)`, both day numbers.
    fn days_between(&self, from: i64, to: i64) -> u64 {
        let (year, month, of_month) = civil_from_days(from);
        let mut month = Month::new(year, month);
        let mut days = self.days_in(month) & !((1 << of_month) - 1);
        let mut total = 0;
        loop {
            let room = to - month.first_day;
            if room <= i64::from(month.len) {
                let keep = ((1_u64 << (room.max(0) + 1)) - 1) as u32;
                return total + u64::from((days & keep).count_ones());
            }
            total += u64::from(days.count_ones());
            month = month.next();
            days = self.days_in(month);
        }
    }

    /// The matching days of a month; bit `d` is day `d`.
    fn days_in(&self, month: Month) -> u32 {
        if self.months >> month.month & 1 == 0
            || self.years.is_some_and(|years| !years.has(month.year))
        {
            return 0;
        }
        let of_month = self.month_days_in(month);
        let of_week = self.week_days_in(month);
        let days = match self.day_rule {
            DayRule::Both => of_month & of_week,
            DayRule::Either => of_month | of_week,
        };
        days & ((((1_u64 << month.len) - 1) << 1) as u32)
    }

    fn month_days_in(&self, month: Month) -> u32 {
        let set = &self.month_days;
        let mut days = set.days;
        if set.nearest | set.before_last | set.nearest_before_last == 0 {
            return days;
        }
        for day in 1..=month.len {
            let before_last = month.len - day;
            if set.before_last >> before_last & 1 == 1 {
                days |= 1 << day;
            }
            if set.nearest >> day & 1 == 1 || set.nearest_before_last >> before_last & 1 == 1 {
                days |= 1 << nearest_weekday(month, day);
            }
        }
        days
    }

    fn week_days_in(&self, month: Month) -> u32 {
        let set = &self.week_days;
        let mut days = 0_u64;
        if set.days != 0 {
            // Turn the week so that bit 0 is the weekday of the first, then lay five of them out.
            let doubled = u64::from(set.days) | u64::from(set.days) << 7;
            let week = doubled >> month.first_weekday & 0x7f;
            days = (week | week << 7 | week << 14 | week << 21 | week << 28) << 1;
        }
        if u64::from(set.last) | set.nth != 0 {
            for day in 1..=month.len {
                let weekday = month.weekday(day);
                let nth = (day - 1) / 7;
                if set.nth >> (5 * weekday + nth) & 1 == 1
                    || (set.last >> weekday & 1 == 1 && day + 7 > month.len)
                {
                    days |= 1 << day;
                }
            }
        }
        days as u32
    }

    /// Jumps over years that can't match, so that a year field costs nothing.
    fn skip_forward(&self, month: Month) -> Option<Month> {
        match &self.years {
            None => Some(month),
            Some(years) if years.has(month.year) => Some(month),
            Some(years) => (month.year.max(1970)..=2099)
                .find(|&year| years.has(year))
                .map(|year| Month::new(year, 1)),
        }
    }

    fn skip_back(&self, month: Month) -> Option<Month> {
        match &self.years {
            None => Some(month),
            Some(years) if years.has(month.year) => Some(month),
            Some(years) => (1970..=month.year.min(2099))
                .rev()
                .find(|&year| years.has(year))
                .map(|year| Month::new(year, 12)),
        }
    }

    fn first_time(&self) -> i64 {
        join(
            self.hours.trailing_zeros(),
            self.minutes.trailing_zeros(),
            self.seconds.trailing_zeros(),
        )
    }

    fn last_time(&self) -> i64 {
        join(
            31 - self.hours.leading_zeros(),
            63 - self.minutes.leading_zeros(),
            63 - self.seconds.leading_zeros(),
        )
    }

    /// The first matching time of day at or after `time`.
    fn next_time(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds >> second << second;
                if seconds != 0 {
                    return Some(join(hour, minute, seconds.trailing_zeros()));
                }
            }
            let minutes = self.minutes >> (minute + 1) << (minute + 1);
            if minutes != 0 {
                return Some(join(
                    hour,
                    minutes.trailing_zeros(),
                    self.seconds.trailing_zeros(),
                ));
            }
        }
        let hours = self.hours >> (hour + 1) << (hour + 1);
        (hours != 0).then(|| {
            join(
                hours.trailing_zeros(),
                self.minutes.trailing_zeros(),
                self.seconds.trailing_zeros(),
            )
        })
    }

    /// The last matching time of day at or before `time`.
    fn prev_time(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = split(time);
        let (last_minute, last_second) = (
            63 - self.minutes.leading_zeros(),
            63 - self.seconds.leading_zeros(),
        );
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1 {
                let seconds = self.seconds & ((2 << second) - 1);
                if seconds != 0 {
                    return Some(join(hour, minute, 63 - seconds.leading_zeros()));
                }
            }
            let minutes = self.minutes & ((1 << minute) - 1);
            if minutes != 0 {
                return Some(join(hour, 63 - minutes.leading_zeros(), last_second));
            }
        }
        let hours = self.hours & ((1 << hour) - 1);
        (hours != 0).then(|| join(31 - hours.leading_zeros(), last_minute, last_second))
    }

    /// How many matching times of day lie before `time`.
    fn times_before(&self, time: i64) -> u64 {
        let (hour, minute, second) = split(time);
        let (per_minute, per_hour) = (
            self.seconds.count_ones(),
            self.minutes.count_ones() * self.seconds.count_ones(),
        );
        let mut count = (self.hours & ((1 << hour) - 1)).count_ones() * per_hour;
        if self.hours >> hour & 1 == 1 {
            count += (self.minutes & ((1 << minute) - 1)).count_ones() * per_minute;
            if self.minutes >> minute & 1 == 1 {
                count += (self.seconds & ((1 << second) - 1)).count_ones();
            }
        }
        u64::from(count)
    }
}

/// The Monday to Friday nearest to a day that the month has, without leaving the month.
fn nearest_weekday(month: Month, day: u32) -> u32 {
    match month.weekday(day) {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == month.len => day - 2,
        0 => day + 1,
        _ => day,
    }
}

fn clear_through(days: u32, day: u32) -> u32 {
    // Two shifts: day can be 31, and one shift by 32 would overflow.
    days >> day >> 1 << 1 << day
}

fn split(time: i64) -> (u32, u32, u32) {
    let time = time as u32;
    (time / 3_600, time / 60 % 60, time % 60)
}

fn join(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}

pub(crate) fn month_len(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
///
/// Counts years from March, so that the leap day is the last of its year.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let of_cycle = year.rem_euclid(400);
    let from_march = i64::from((month + 9) % 12);
    let of_year = (153 * from_march + 2) / 5 + i64::from(day) - 1;
    cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year - 719_468
}

/// The inverse of [`days_from_civil`].
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let of_cycle = days.rem_euclid(146_097);
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + cycle * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}
