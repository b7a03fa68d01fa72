//! A whole expression: nicknames, the zone in front, the fields and how the day fields combine.
//!
//! The rules of each dialect are those of docs/guide/cron.md.
//!
//! # Not here
//! Good messages about bad expressions (`sichen_core::schedule::cron`); here a reason is enough.

use crate::days::Date;
use crate::field::{Field, Place, Text, digits};

/// The rules that an expression is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Five fields of crontab(5), with `L`, `W`, `#`, `H` and `@every`.
    Crontab,
    /// Five fields as a system's crontab reads them, nothing more.
    CrontabPlain,
    /// As [`Dialect::Crontab`] with seconds in front.
    Seconds,
    /// As a Kubernetes CronJob.
    Kubernetes,
    /// Six or seven fields, weekday 1 = Sunday.
    Quartz,
}

impl Dialect {
    /// The rules for a text whose dialect nobody named: six fields have seconds.
    #[must_use]
    pub fn of(text: &str) -> Dialect {
        match text
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .count()
        {
            6 => Dialect::Seconds,
            _ => Dialect::Crontab,
        }
    }

    /// A dialect by its name in documents.
    #[must_use]
    pub fn named(name: &str) -> Option<Dialect> {
        Some(match name {
            "crontab" => Dialect::Crontab,
            "crontab-plain" => Dialect::CrontabPlain,
            "seconds" => Dialect::Seconds,
            "kubernetes" => Dialect::Kubernetes,
            "quartz" => Dialect::Quartz,
            _ => return None,
        })
    }
}

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Fields.
    Fields(Box<Expression>),
    /// `@every`, in seconds.
    Every(i64),
}

/// Fields as tables of booleans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    pub(crate) second: Field,
    pub(crate) minute: Field,
    pub(crate) hour: Field,
    month_day: Field,
    month: Field,
    week_day: Field,
    year: Option<Field>,
    /// Both day fields must match; otherwise one is enough.
    both: bool,
    /// The minute or the hour starts with `*`: the expression follows elapsed time.
    pub(crate) interval: bool,
}

impl Expression {
    /// Reads a text. The zone that it names itself, if it does, comes beside it.
    ///
    /// `seed` spreads `H`; see [`crate::hash_of_key`].
    ///
    /// # Errors
    /// What is not understood.
    pub fn read(
        text: &str,
        dialect: Dialect,
        seed: Option<u64>,
    ) -> Result<(Reading, Option<String>), String> {
        let mut words: Vec<&str> = text.split([' ', '\t']).filter(|w| !w.is_empty()).collect();
        let zone = words.first().and_then(|word| {
            let zone = word.strip_prefix("CRON_TZ=").or(word.strip_prefix("TZ="));
            zone.map(str::to_owned)
        });
        if zone.is_some() {
            if dialect != Dialect::Kubernetes {
                return Err("this dialect has no zone in front".into());
            }
            words.remove(0);
        }
        let reading = match words.first() {
            None => return Err("the expression is empty".into()),
            Some(word) if word.starts_with('@') => nickname(&words, dialect)?,
            Some(_) => Reading::Fields(Box::new(fields(&words, dialect, seed)?)),
        };
        Ok((reading, zone))
    }

    /// Whether any time of a date is named.
    pub(crate) fn has_date(&self, date: Date) -> bool {
        let year = self.year.as_ref().is_none_or(|year| year.has(date.year));
        let of_month = self.month_day.has_day(date);
        let of_week = self.week_day.has_weekday(date);
        let day = if self.both {
            of_month && of_week
        } else {
            of_month || of_week
        };
        year && day && self.month.has(date.month)
    }
}

fn fields(words: &[&str], dialect: Dialect, seed: Option<u64>) -> Result<Expression, String> {
    use Place::{Hour, Minute, Month, MonthDay, Second, WeekDay, Year};
    let places: &[Place] = match (words.len(), dialect) {
        (5, Dialect::Crontab | Dialect::CrontabPlain | Dialect::Kubernetes) => {
            &[Minute, Hour, MonthDay, Month, WeekDay]
        }
        (6, Dialect::Seconds | Dialect::Kubernetes | Dialect::Quartz) => {
            &[Second, Minute, Hour, MonthDay, Month, WeekDay]
        }
        (7, Dialect::Quartz) => &[Second, Minute, Hour, MonthDay, Month, WeekDay, Year],
        (count, _) => return Err(format!("{count} fields are too few or too many")),
    };
    let text = |place: Place| {
        let at = places.iter().position(|other| *other == place)?;
        words.get(at).copied()
    };
    let read = |place: Place, if_absent: &'static str| {
        let text = text(place).unwrap_or(if_absent);
        Text {
            place,
            dialect,
            seed,
            text,
        }
        .read()
    };
    let (month_day, week_day) = (read(MonthDay, "*")?, read(WeekDay, "*")?);
    let (days, weekdays) = (text(MonthDay).unwrap_or("*"), text(WeekDay).unwrap_or("*"));
    let open = |text: &str| matches!(text, "*" | "?");
    let both = match dialect {
        Dialect::Crontab | Dialect::CrontabPlain => {
            days.starts_with('*') || weekdays.starts_with('*')
        }
        Dialect::Kubernetes => month_day.bare || week_day.bare,
        Dialect::Seconds => open(days) || open(weekdays),
        Dialect::Quartz => {
            if (days == "?") == (weekdays == "?") {
                return Err("exactly one of the day fields is `?`".into());
            }
            true
        }
    };
    let starred = |place: Place| text(place).unwrap_or("0").starts_with(['*', '?']);
    Ok(Expression {
        second: read(Second, "0")?,
        minute: read(Minute, "0")?,
        hour: read(Hour, "0")?,
        month_day,
        month: read(Month, "*")?,
        week_day,
        year: match text(Year) {
            Some(_) => Some(read(Year, "*")?),
            None => None,
        },
        both,
        interval: starred(Minute) || starred(Hour),
    })
}

fn nickname(words: &[&str], dialect: Dialect) -> Result<Reading, String> {
    if dialect == Dialect::Quartz {
        return Err("this dialect has no nicknames".into());
    }
    let exact = dialect == Dialect::Kubernetes;
    let name = if exact {
        words[0].to_owned()
    } else {
        words[0].to_ascii_lowercase()
    };
    if name == "@every" && dialect != Dialect::CrontabPlain {
        let [_, period] = words else {
            return Err("`@every` is followed by one length of time".into());
        };
        let seconds = every(period, exact).ok_or("a length of time that is not understood")?;
        return Ok(Reading::Every(seconds));
    }
    let meaning = match name.as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return Err(format!("the nickname `{name}` is unknown")),
    };
    if words.len() > 1 {
        return Err("a nickname stands alone".into());
    }
    let words: Vec<&str> = meaning.split(' ').collect();
    let dialect = match dialect {
        Dialect::Seconds => Dialect::Crontab,
        other => other,
    };
    fields(&words, dialect, None).map(|fields| Reading::Fields(Box::new(fields)))
}

/// Whole seconds of `1h30m`. `decimal`: as Go reads it, with fractions and small units, rounded
/// down, to a second at least.
fn every(text: &str, decimal: bool) -> Option<i64> {
    let mut total = 0_i128;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(unit_at);
        let number_at = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(number_at.unwrap_or(tail.len()));
        let nanoseconds: i128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "d" if !decimal => 86_400_000_000_000,
            "w" if !decimal => 7 * 86_400_000_000_000,
            "ms" if decimal => 1_000_000,
            "us" | "µs" if decimal => 1_000,
            "ns" if decimal => 1,
            _ => return None,
        };
        let (whole, part) = match number.split_once('.') {
            Some(_) if !decimal => return None,
            Some((whole, part)) => (whole, part),
            None => (number, ""),
        };
        let number = |text: &str| {
            if text.is_empty() {
                Some(0)
            } else {
                digits(text)
            }
        };
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        total += i128::from(number(whole)?) * nanoseconds;
        let scale = 10_i128.pow(u32::try_from(part.len()).ok()?);
        total += i128::from(number(part)?) * nanoseconds / scale;
        rest = tail;
    }
    let seconds = i64::try_from(total / 1_000_000_000).ok()?;
    match (total, decimal) {
        (0, _) => None,
        (_, true) => Some(seconds.max(1)),
        (_, false) => (seconds > 0).then_some(seconds),
    }
}
