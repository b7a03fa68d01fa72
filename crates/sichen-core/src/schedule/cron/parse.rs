//! A whole expression: nicknames, the zone prefix, the number of fields, how the day fields combine.
//!
//! # Invariants
//! - The text is read from left to right and nothing of it is left over.
//! - A dialect is never guessed, apart from five or six fields under the default rules.

use std::ops::Range;

use super::error::{Error, FieldName, Kind};
use super::field::{Field, Reader};
use super::pattern::{DayRule, MonthDays, Pattern, WeekDays, Years};
use super::{Class, Dialect};

/// Bytes of an expression; far more than any real one.
pub(super) const MAX_TEXT: usize = 1_024;
/// The longest `@every`, in seconds: about a hundred years.
const MAX_EVERY: u64 = 100 * 366 * 86_400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Fields {
        pattern: Pattern,
        class: Class,
    },
    /// Seconds.
    Every(i64),
}

#[derive(Debug, Clone)]
pub(super) struct Parsed {
    pub body: Body,
    /// Zone named in the text.
    pub zone: Option<String>,
    /// Single blanks, no prefix.
    pub normal: String,
    pub hashed: bool,
}

pub(super) fn parse(text: &str, dialect: Dialect, hash: Option<u64>) -> Result<Parsed, Error> {
    let whole = |kind, message: &str, intended: &str| {
        let all = 0..text.len();
        Error::new(text, kind, FieldName::Expression, all, message, intended)
    };
    if text.len() > MAX_TEXT {
        let message = format!("an expression is at most {MAX_TEXT} bytes long");
        return Err(Error::new(
            text,
            Kind::TooLong,
            FieldName::Expression,
            0..0,
            message,
            "several shorter expressions, each a schedule of its own",
        ));
    }
    let mut words = words(text);
    if words.is_empty() {
        let message = "the expression is empty";
        return Err(whole(Kind::Empty, message, dialect.form()));
    }
    let zone = zone_prefix(text, &mut words, dialect)?;
    let Some(first) = words.first().cloned() else {
        let (message, intended) = ("nothing follows the zone", "the fields after it");
        return Err(whole(Kind::ZonePrefix, message, intended));
    };
    let normal = words
        .iter()
        .map(|span| &text[span.clone()])
        .collect::<Vec<_>>()
        .join(" ");
    if text[first.clone()].starts_with('@') {
        let (body, hashed) = nickname(text, &words, dialect, hash)?;
        return Ok(Parsed {
            body,
            zone,
            normal,
            hashed,
        });
    }
    let names = names(text, &words, dialect)?;
    let mut fields = Vec::with_capacity(words.len());
    for (span, name) in words.into_iter().zip(names) {
        let reader = Reader {
            text,
            span: span.clone(),
            name: *name,
            dialect,
            hash,
        };
        fields.push((*name, span, reader.read()?));
    }
    let hashed = fields.iter().any(|(_, _, field)| field.hashed);
    Ok(Parsed {
        body: combine(text, &fields, dialect)?,
        zone,
        normal,
        hashed,
    })
}

fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (start, matches!(c, ' ' | '\t')) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| from..text.len()));
    words
}

/// How many words the fields of an expression take, for telling five from six.
pub(super) fn field_count(text: &str) -> usize {
    words(text).len()
}

fn zone_prefix(
    text: &str,
    words: &mut Vec<Range<usize>>,
    dialect: Dialect,
) -> Result<Option<String>, Error> {
    let first = words[0].clone();
    let word = &text[first.clone()];
    let Some(name) = ["TZ=", "CRON_TZ="]
        .into_iter()
        .find_map(|prefix| word.strip_prefix(prefix))
    else {
        return Ok(None);
    };
    let at = first.end - name.len()..first.end;
    if dialect != Dialect::Kubernetes {
        return Err(Error::new(
            text,
            Kind::ZonePrefix,
            FieldName::Zone,
            first,
            "this dialect has no zone prefix",
            "the zone into its own field, next to the expression",
        ));
    }
    if name.is_empty() || jiff::tz::TimeZone::get(name).is_err() {
        let span = if at.is_empty() { first } else { at };
        return Err(Error::new(
            text,
            Kind::ZonePrefix,
            FieldName::Zone,
            span,
            "unknown time zone",
            "an IANA name such as `Asia/Shanghai`",
        ));
    }
    words.remove(0);
    Ok(Some(name.to_owned()))
}

fn names(
    text: &str,
    words: &[Range<usize>],
    dialect: Dialect,
) -> Result<&'static [FieldName], Error> {
    use FieldName::{DayOfMonth, DayOfWeek, Hour, Minute, Month, Second, Year};
    const ALL: [FieldName; 7] = [Second, Minute, Hour, DayOfMonth, Month, DayOfWeek, Year];
    match (words.len(), dialect) {
        (5, Dialect::Crontab | Dialect::CrontabPlain | Dialect::Kubernetes) => Ok(&ALL[1..6]),
        (6, Dialect::Seconds | Dialect::Kubernetes | Dialect::Quartz) => Ok(&ALL[..6]),
        (7, Dialect::Quartz) => Ok(&ALL),
        (count, _) => {
            let least = if matches!(dialect, Dialect::Seconds | Dialect::Quartz) {
                6
            } else {
                5
            };
            let wrong = if count < least { "few" } else { "many" };
            let message = format!("{count} fields are too {wrong}");
            let span = words[0].start..words[count - 1].end;
            let (kind, field) = (Kind::FieldCount, FieldName::Expression);
            Err(Error::new(text, kind, field, span, message, dialect.form()))
        }
    }
}

fn combine(
    text: &str,
    fields: &[(FieldName, Range<usize>, Field)],
    dialect: Dialect,
) -> Result<Body, Error> {
    let get = |name| {
        fields
            .iter()
            .find(|(field, ..)| *field == name)
            .map(|(_, span, field)| (span.clone(), *field))
    };
    let bits = |name| get(name).map_or(1, |(_, field)| field.bits);
    let star_led = |name| get(name).is_some_and(|(_, field)| field.star_led);
    let (month_span, of_month) = get(FieldName::DayOfMonth).unwrap_or_default();
    let (week_span, of_week) = get(FieldName::DayOfWeek).unwrap_or_default();
    if dialect == Dialect::Quartz && of_month.question == of_week.question {
        return Err(Error::new(
            text,
            Kind::QuestionMark,
            FieldName::DayOfWeek,
            month_span.start..week_span.end,
            "exactly one of the two day fields is `?`",
            "`?` for the day field that does not matter",
        ));
    }
    let both = match dialect {
        Dialect::Crontab | Dialect::CrontabPlain => of_month.star_led || of_week.star_led,
        Dialect::Kubernetes => of_month.star_bare || of_week.star_bare,
        Dialect::Seconds => of_month.star_exact || of_week.star_exact,
        Dialect::Quartz => true,
    };
    let class = if star_led(FieldName::Minute) || star_led(FieldName::Hour) {
        Class::Interval
    } else {
        Class::Fixed
    };
    let pattern = Pattern {
        seconds: bits(FieldName::Second),
        minutes: bits(FieldName::Minute),
        hours: bits(FieldName::Hour) as u32,
        month_days: MonthDays {
            days: of_month.bits as u32,
            ..of_month.month_days
        },
        months: bits(FieldName::Month) as u16,
        week_days: WeekDays {
            days: of_week.bits as u8,
            ..of_week.week_days
        },
        years: get(FieldName::Year)
            .map(|(_, field)| Years([field.bits, field.more[0], field.more[1]])),
        day_rule: if both { DayRule::Both } else { DayRule::Either },
    };
    Ok(Body::Fields { pattern, class })
}

fn nickname(
    text: &str,
    words: &[Range<usize>],
    dialect: Dialect,
    hash: Option<u64>,
) -> Result<(Body, bool), Error> {
    let span = words[0].start..words[words.len() - 1].end;
    let error = |kind, message: &str, intended: &str| {
        let field = FieldName::Expression;
        Error::new(text, kind, field, span.clone(), message, intended)
    };
    let exact = dialect == Dialect::Kubernetes;
    let word = &text[words[0].clone()];
    let name = if exact {
        word.to_owned()
    } else {
        word.to_ascii_lowercase()
    };
    if dialect == Dialect::Quartz {
        let intended = "its fields, such as `0 0 0 * * ?` for each midnight";
        return Err(error(Kind::Nickname, "quartz has no nicknames", intended));
    }
    if name == "@every" && dialect != Dialect::CrontabPlain {
        let period = match words {
            [_, period] => every(&text[period.clone()], exact),
            _ => None,
        };
        let period = period.ok_or_else(|| {
            error(
                Kind::Every,
                "the period of `@every` is at least 1 s and at most 100 years",
                "`@every 1h30m`",
            )
        })?;
        return Ok((Body::Every(period), false));
    }
    let fields = match name.as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@reboot" => {
            return Err(error(
                Kind::Nickname,
                "`@reboot` is an event of a machine, not a time",
                "a time such as `@daily`, and let the machine start the job when it comes up",
            ));
        }
        _ => {
            let known = "one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
            return Err(error(Kind::Nickname, "unknown nickname", known));
        }
    };
    if words.len() > 1 {
        let alone = format!("`{word}` alone");
        return Err(error(Kind::FieldCount, "a nickname stands alone", &alone));
    }
    let dialect = if dialect == Dialect::Seconds {
        Dialect::Crontab
    } else {
        dialect
    };
    parse(fields, dialect, hash).map(|parsed| (parsed.body, false))
}

/// A period such as `1h30m`, in seconds. `decimal`: fractions and units below a second are read as
/// Go does, and rounded down to whole seconds, but to no less than one.
fn every(text: &str, decimal: bool) -> Option<i64> {
    let mut rest = text;
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let unit: u128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "d" if !decimal => 86_400_000_000_000,
            "w" if !decimal => 604_800_000_000_000,
            "ms" if decimal => 1_000_000,
            "us" | "µs" if decimal => 1_000,
            "ns" if decimal => 1,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (!decimal && number.contains('.'))
            || number.len() > 18
            || (whole.is_empty() && fraction.is_empty())
        {
            return None;
        }
        let whole: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let part: u128 = if fraction.is_empty() {
            0
        } else {
            fraction.parse().ok()?
        };
        nanos += whole * unit + part * unit / 10_u128.pow(fraction.len() as u32);
        rest = tail;
    }
    if text.is_empty() || nanos == 0 {
        return None;
    }
    let seconds = nanos / 1_000_000_000;
    let seconds = if decimal { seconds.max(1) } else { seconds };
    (seconds >= 1 && seconds <= u128::from(MAX_EVERY)).then_some(seconds as i64)
}
