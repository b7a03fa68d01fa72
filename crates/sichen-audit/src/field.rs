//! One field of an expression: text to a table of booleans.
//!
//! # Not here
//! How fields combine (`super::text`).

use crate::days::Date;
use crate::text::Dialect;

/// Which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Second,
    Minute,
    Hour,
    MonthDay,
    Month,
    WeekDay,
    Year,
}

/// What a field names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// Whether the number of a place is named; weekdays from 0 = Sunday.
    pub named: Vec<bool>,
    /// Days that only the calendar can tell.
    pub special: Vec<Special>,
    /// Some item is `*` or `?` without a step above 1.
    pub bare: bool,
}

/// A day that depends on its month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    /// So many days before the month's last.
    BeforeLast(i64),
    /// The Monday to Friday nearest to a day of the month.
    Nearest(i64),
    /// The same, for a day counted back from the last.
    NearestBeforeLast(i64),
    /// The last such weekday of the month.
    LastWeekday(i64),
    /// The n-th such weekday of the month.
    NthWeekday(i64, i64),
}

impl Field {
    /// Whether a number is named.
    pub fn has(&self, number: i64) -> bool {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        self.named.get(at).copied().unwrap_or(false)
    }

    /// Whether the field of the month's days names a date.
    pub fn has_day(&self, date: Date) -> bool {
        self.has(date.day) || self.special.iter().any(|special| special.holds(date))
    }

    /// Whether the field of weekdays names a date.
    pub fn has_weekday(&self, date: Date) -> bool {
        self.has(date.weekday()) || self.special.iter().any(|special| special.holds(date))
    }
}

impl Special {
    fn holds(self, date: Date) -> bool {
        let last = date.month_days();
        match self {
            Special::BeforeLast(back) => date.day == last - back,
            Special::Nearest(day) => is_nearest(date, day),
            Special::NearestBeforeLast(back) => is_nearest(date, last - back),
            Special::LastWeekday(weekday) => date.weekday() == weekday && date.day + 7 > last,
            Special::NthWeekday(weekday, nth) => {
                date.weekday() == weekday && (date.day + 6) / 7 == nth
            }
        }
    }
}

/// Whether a date is the working day of its month that is nearest to a day of it. Two are never
/// equally near: a weekend has two days.
fn is_nearest(date: Date, target: i64) -> bool {
    let last = date.month_days();
    if !(1..=last).contains(&target) {
        return false;
    }
    let weekday_of = |day: i64| (date.weekday() + day - date.day).rem_euclid(7);
    let working = (1..=last).filter(|day| !matches!(weekday_of(*day), 0 | 6));
    working.min_by_key(|day| (day - target).abs()) == Some(date.day)
}

/// Least and greatest number of a place, as a text writes them.
fn bounds(place: Place, dialect: Dialect) -> (i64, i64) {
    match place {
        Place::Second | Place::Minute => (0, 59),
        Place::Hour => (0, 23),
        Place::MonthDay => (1, 31),
        Place::Month => (1, 12),
        Place::WeekDay if dialect == Dialect::Quartz => (1, 7),
        Place::WeekDay => (0, 6),
        Place::Year => (1970, 2099),
    }
}

/// What a field's text says, and the rules it says it by.
pub(crate) struct Text<'a> {
    pub place: Place,
    pub dialect: Dialect,
    /// What spreads `H`.
    pub seed: Option<u64>,
    pub text: &'a str,
}

impl Text<'_> {
    pub fn read(&self) -> Result<Field, String> {
        let (_, max) = bounds(self.place, self.dialect);
        let mut field = Field {
            named: vec![false; usize::try_from(max).unwrap_or(0) + 1],
            ..Field::default()
        };
        for item in self.text.split(',') {
            self.item(item, &mut field)?;
        }
        Ok(field)
    }

    fn wrong(&self, item: &str, why: &str) -> String {
        format!("`{item}` in `{}`: {why}", self.text)
    }

    fn item(&self, item: &str, field: &mut Field) -> Result<(), String> {
        let extras = matches!(self.dialect, Dialect::Crontab | Dialect::Seconds);
        if extras || self.dialect == Dialect::Quartz {
            let special = match self.place {
                Place::MonthDay => self.special_day(&item.to_ascii_uppercase())?,
                Place::WeekDay => self.special_weekday(item, field)?,
                _ => None,
            };
            match special {
                Some(Found::Special(special)) => {
                    field.special.push(special);
                    return Ok(());
                }
                Some(Found::Plain) => return Ok(()),
                None => {}
            }
        }
        let (range, step) = match item.split_once('/') {
            None => (item, None),
            Some((range, step)) => (range, Some(self.step(step)?)),
        };
        let (min, max) = bounds(self.place, self.dialect);
        if range == "*" || (range == "?" && self.takes_question(step)) {
            field.bare |= step.unwrap_or(1) == 1;
            self.fill(field, min, max, step.unwrap_or(1));
            return Ok(());
        }
        if extras && range.starts_with(['H', 'h']) {
            return self.spread(range, step, field);
        }
        let from_value = matches!(self.dialect, Dialect::Kubernetes | Dialect::Quartz);
        match (range.split_once('-'), step) {
            (None, None) => {
                let value = self.value(range, false)?;
                self.fill(field, value, value, 1);
            }
            (None, Some(step)) if from_value => {
                self.fill(field, self.value(range, false)?, max, step);
            }
            (None, Some(_)) => return Err(self.wrong(item, "a step needs `*` or a range")),
            (Some((low, high)), step) => {
                let (low, high) = (self.value(low, false)?, self.value(high, true)?);
                let step = step.unwrap_or(1);
                let wraps = self.dialect == Dialect::Quartz && self.place != Place::Year;
                if low <= high {
                    self.fill(field, low, high, step);
                } else if wraps {
                    // Counted on past the end of the field to its beginning.
                    self.fill(field, low, high + max - min + 1, step);
                } else {
                    return Err(self.wrong(item, "a range does not run backward"));
                }
            }
        }
        Ok(())
    }

    fn takes_question(&self, step: Option<i64>) -> bool {
        let day = matches!(self.place, Place::MonthDay | Place::WeekDay);
        match self.dialect {
            Dialect::Kubernetes => true,
            Dialect::Seconds => day && step.is_none(),
            Dialect::Quartz => day && self.text == "?",
            Dialect::Crontab | Dialect::CrontabPlain => false,
        }
    }

    /// Names every `step`-th number from `low` to `high`; what lies beyond the field wraps.
    fn fill(&self, field: &mut Field, low: i64, high: i64, step: i64) {
        let (min, max) = bounds(self.place, self.dialect);
        let mut value = low;
        while value <= high {
            let number = match self.place {
                Place::WeekDay if self.dialect == Dialect::Quartz => (value - 1) % 7,
                Place::WeekDay => value % 7,
                _ if value > max => value - (max - min + 1),
                _ => value,
            };
            if let Some(named) = usize::try_from(number)
                .ok()
                .and_then(|number| field.named.get_mut(number))
            {
                *named = true;
            }
            value += step;
        }
    }

    fn step(&self, text: &str) -> Result<i64, String> {
        let (min, max) = bounds(self.place, self.dialect);
        let step = digits(text).filter(|step| *step > 0);
        let step = step.ok_or_else(|| self.wrong(text, "a step is a number from 1 on"))?;
        if self.dialect == Dialect::Quartz && step > max - min {
            return Err(self.wrong(text, "the step is as large as its field"));
        }
        Ok(step)
    }

    /// A number or a name. `last`: it ends a range, where Sunday may be the seventh day.
    fn value(&self, text: &str, last: bool) -> Result<i64, String> {
        let (min, max) = bounds(self.place, self.dialect);
        let seventh = self.place == Place::WeekDay
            && !matches!(self.dialect, Dialect::Kubernetes | Dialect::Quartz);
        if let Some(value) = digits(text) {
            let fits = (min..=max).contains(&value) || (seventh && value == 7);
            return if fits {
                Ok(value)
            } else {
                Err(self.wrong(text, "out of range"))
            };
        }
        let names: &[&str] = match self.place {
            Place::Month => &[
                "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
            ],
            Place::WeekDay => &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
            _ => &[],
        };
        let place = names
            .iter()
            .zip(min..)
            .find(|(name, _)| text.eq_ignore_ascii_case(name));
        let (_, value) = place.ok_or_else(|| self.wrong(text, "no value of this field"))?;
        let plain = self.dialect == Dialect::CrontabPlain;
        Ok(if last && seventh && !plain && value == 0 {
            7
        } else {
            value
        })
    }

    fn special_day(&self, item: &str) -> Result<Option<Found>, String> {
        let wrong = || self.wrong(item, "no day of a month");
        let special = |special| Ok(Some(Found::Special(special)));
        let back = |text: &str| match text.strip_prefix('-') {
            None if text.is_empty() => Ok(0),
            None => Err(wrong()),
            Some(back) => digits(back).filter(|back| *back <= 30).ok_or_else(wrong),
        };
        match (item.strip_prefix('L'), item.strip_suffix('W')) {
            (Some(rest), None) => special(Special::BeforeLast(back(rest)?)),
            (Some(rest), Some(_)) => {
                let rest = &rest[..rest.len() - 1];
                special(Special::NearestBeforeLast(back(rest)?))
            }
            (None, Some(day)) => {
                let day = digits(day).filter(|day| (1..=31).contains(day));
                special(Special::Nearest(day.ok_or_else(wrong)?))
            }
            (None, None) => Ok(None),
        }
    }

    fn special_weekday(&self, item: &str, field: &mut Field) -> Result<Option<Found>, String> {
        let shift = i64::from(self.dialect == Dialect::Quartz);
        let weekday = |text: &str| Ok::<i64, String>((self.value(text, false)? - shift) % 7);
        if let Some((day, nth)) = item.split_once('#') {
            let nth = digits(nth).filter(|nth| (1..=5).contains(nth));
            let nth = nth.ok_or_else(|| self.wrong(item, "`#` is followed by 1 to 5"))?;
            let special = Special::NthWeekday(weekday(day)?, nth);
            return Ok(Some(Found::Special(special)));
        }
        let Some(day) = item.strip_suffix(['L', 'l']) else {
            return Ok(None);
        };
        if day.is_empty() && self.dialect == Dialect::Quartz {
            self.fill(field, 7, 7, 1);
            return Ok(Some(Found::Plain));
        }
        let special = Special::LastWeekday(weekday(day)?);
        Ok(Some(Found::Special(special)))
    }

    /// `H`, `H(a-b)` and either with a step: a number that depends on the job alone.
    fn spread(&self, range: &str, step: Option<i64>, field: &mut Field) -> Result<(), String> {
        let (min, max) = bounds(self.place, self.dialect);
        let inside = range[1..]
            .strip_prefix('(')
            .and_then(|r| r.strip_suffix(')'));
        let (low, high) = match inside.and_then(|inside| inside.split_once('-')) {
            Some((low, high)) => (self.value(low, false)?, self.value(high, true)?),
            None if range.len() > 1 => return Err(self.wrong(range, "`H` or `H(a-b)`")),
            None if self.place == Place::MonthDay => (1, 28),
            None => (min, max),
        };
        if low > high {
            return Err(self.wrong(range, "a range does not run backward"));
        }
        let seed = self.seed.ok_or("`H` needs a job to be spread by")?;
        let salt = (self.place as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = crate::timetable::mix(seed ^ salt);
        let size = high - low + 1;
        let part = |of: i64| i64::try_from(spread % of.unsigned_abs()).unwrap_or(0);
        match step {
            None => {
                let value = low + part(size);
                self.fill(field, value, value, 1);
            }
            Some(step) => self.fill(field, low + part(step.min(size)), high, step),
        }
        Ok(())
    }
}

/// What a day's item turned out to be.
enum Found {
    Special(Special),
    /// It is in the table already.
    Plain,
}

/// A number of ASCII digits.
pub(crate) fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}
