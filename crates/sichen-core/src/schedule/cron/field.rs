//! One field of a cron expression: text to bits.
//!
//! # Invariants
//! - A field that is accepted names at least one value, or carries a modifier (`L`, `W`, `#`).
//! - Nothing is padded, swapped or cut: what the dialect does not know is refused with its place.
//!
//! # Not here
//! How fields combine, nicknames and zone prefixes (`super::parse`).

use std::ops::Range;

use super::Dialect;
use super::error::{Error, FieldName, Kind};
use super::pattern::{MonthDays, WeekDays};

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A parsed field.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Field {
    /// Bit `v` is the value `v`; weekdays count from 0 = Sunday, years from 1970.
    pub bits: u64,
    /// Further years, when `bits` does not reach.
    pub more: [u64; 2],
    pub month_days: MonthDays,
    pub week_days: WeekDays,
    /// The text starts with `*` or `?`.
    pub star_led: bool,
    /// The text is exactly `*` or `?`.
    pub star_exact: bool,
    /// Some item is a `*` or `?` without a step above 1.
    pub star_bare: bool,
    /// The text is exactly `?`.
    pub question: bool,
    /// Some item is spread by `H`.
    pub hashed: bool,
}

/// The text of a field, its place, and the rules it is read by.
pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub span: Range<usize>,
    pub name: FieldName,
    pub dialect: Dialect,
    pub hash: Option<u64>,
}

struct Limits {
    min: u32,
    max: u32,
    /// The highest number a range may end with: 7 for Sunday where 0 is Sunday too.
    range_max: u32,
}

impl Reader<'_> {
    pub(super) fn read(&self) -> Result<Field, Error> {
        let text = &self.text[self.span.clone()];
        if let Some((at, odd)) = text.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
            let start = self.span.start + at;
            let intended = match ascii_digit(odd) {
                Some(digit) => format!("the ASCII digit `{digit}`"),
                None => self.form(),
            };
            let message = "only plain ASCII digits, letters and signs are read";
            let span = start..start + odd.len_utf8();
            return Err(self.error(Kind::NotAscii, span, message, intended));
        }
        let mut field = Field {
            star_led: text.starts_with(['*', '?']),
            star_exact: matches!(text, "*" | "?"),
            question: text == "?",
            ..Field::default()
        };
        let mut start = self.span.start;
        for item in text.split(',') {
            let span = start..start + item.len();
            start = span.end + 1;
            if item.is_empty() {
                let near = span.start.saturating_sub(1).max(self.span.start)
                    ..(span.end + 1).min(self.span.end);
                let items: Vec<&str> = text.split(',').filter(|item| !item.is_empty()).collect();
                let intended = match items.as_slice() {
                    [] => self.form(),
                    items => format!("`{}`", items.join(",")),
                };
                let message = "a list has an empty place";
                return Err(self.error(Kind::EmptyItem, near, message, intended));
            }
            self.item(item, span, &mut field)?;
        }
        Ok(field)
    }

    fn item(&self, item: &str, span: Range<usize>, field: &mut Field) -> Result<(), Error> {
        if self.modifier(item, &span, field)? {
            return Ok(());
        }
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (
                base,
                Some(self.step(step, span.start + base.len() + 1..span.end, &span)?),
            ),
            None => (item, None),
        };
        let base_span = span.start..span.start + base.len();
        let limits = self.limits();
        if matches!(base, "*" | "?") {
            if base == "?" {
                self.question_mark(&span, step.is_some())?;
            }
            field.star_bare |= step.unwrap_or(1) == 1;
            self.fill(field, limits.min, limits.max, step.unwrap_or(1));
            return Ok(());
        }
        if base.starts_with(['H', 'h']) && self.dialect.has_extras() {
            return self.hashed(base, base_span, step, field);
        }
        // A sign in front is a missing value, not the start of a range.
        let (low, high) = match base.char_indices().skip(1).find(|(_, c)| *c == '-') {
            Some((at, _)) => {
                let low = self.value(&base[..at], span.start..span.start + at, false)?;
                let high = self.value(&base[at + 1..], span.start + at + 1..base_span.end, true)?;
                (low, Some(high))
            }
            None => (self.value(base, base_span.clone(), false)?, None),
        };
        match (high, step) {
            (None, None) => self.fill(field, low, low, 1),
            (None, Some(step)) if self.dialect.steps_from_value() => {
                self.fill(field, low, limits.max, step)
            }
            (None, Some(step)) => {
                return Err(self.error(
                    Kind::StepWithoutRange,
                    span,
                    "a step follows `*` or a range, not a single value",
                    format!("`{low}-{}/{step}`", limits.max),
                ));
            }
            (Some(high), step) if low <= high => self.fill(field, low, high, step.unwrap_or(1)),
            (Some(high), step)
                if self.dialect == Dialect::Quartz && self.name != FieldName::Year =>
            {
                self.fill_wrapped(field, low, high, step.unwrap_or(1));
            }
            (Some(high), step) => {
                let intended = match step {
                    None => format!("`{},{}`", run(low, limits.range_max), run(limits.min, high)),
                    Some(_) => "the values as a list".to_owned(),
                };
                let message = "a range never runs backward";
                return Err(self.error(Kind::Backward, base_span, message, intended));
            }
        }
        Ok(())
    }

    /// Sets every `step`-th value from `low` to `high`.
    fn fill(&self, field: &mut Field, low: u32, high: u32, step: u32) {
        let mut value = u64::from(low);
        while value <= u64::from(high) {
            self.set(field, value as u32);
            value += u64::from(step);
        }
    }

    /// The same, counting on past the field's end to its beginning.
    fn fill_wrapped(&self, field: &mut Field, low: u32, high: u32, step: u32) {
        let limits = self.limits();
        let size = limits.max - limits.min + 1;
        let mut offset = low - limits.min;
        while offset <= high - limits.min + size {
            self.set(field, limits.min + offset % size);
            offset += step;
        }
    }

    fn set(&self, field: &mut Field, value: u32) {
        match self.name {
            FieldName::DayOfWeek => field.bits |= 1 << self.weekday(value),
            FieldName::Year => match (value - 1970) as usize {
                at @ 0..64 => field.bits |= 1 << at,
                at => field.more[at / 64 - 1] |= 1 << (at % 64),
            },
            _ => field.bits |= 1 << value,
        }
    }

    /// A weekday's number in this dialect, as 0 = Sunday.
    fn weekday(&self, value: u32) -> u32 {
        if self.dialect == Dialect::Quartz {
            value - 1
        } else {
            value % 7
        }
    }

    fn limits(&self) -> Limits {
        let (min, max) = match self.name {
            FieldName::Second | FieldName::Minute => (0, 59),
            FieldName::Hour => (0, 23),
            FieldName::DayOfMonth => (1, 31),
            FieldName::Month => (1, 12),
            FieldName::DayOfWeek if self.dialect == Dialect::Quartz => (1, 7),
            FieldName::DayOfWeek => (0, 6),
            FieldName::Year | FieldName::Zone | FieldName::Expression => (1970, 2099),
        };
        let sunday_twice = self.name == FieldName::DayOfWeek
            && !matches!(self.dialect, Dialect::Quartz | Dialect::Kubernetes);
        Limits {
            min,
            max,
            range_max: if sunday_twice { 7 } else { max },
        }
    }

    fn names(&self) -> &'static [&'static str] {
        match self.name {
            FieldName::Month => &MONTHS,
            FieldName::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    /// A number or a three-letter name. `ends_range`: `SUN` is 7 where Sunday is both 0 and 7.
    fn value(&self, text: &str, span: Range<usize>, ends_range: bool) -> Result<u32, Error> {
        let limits = self.limits();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = text.parse::<u32>().unwrap_or(u32::MAX);
            if value < limits.min || value > limits.range_max {
                let message = self.range_in_words();
                return Err(self.error(Kind::OutOfRange, span, message, self.form()));
            }
            return Ok(value);
        }
        if let Some(at) = self
            .names()
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
        {
            let value = at as u32
                + match (self.name, self.dialect) {
                    (FieldName::Month, _) | (_, Dialect::Quartz) => 1,
                    _ => 0,
                };
            let sunday_ends =
                ends_range && value == 0 && limits.range_max == 7 && self.dialect.has_extras();
            return Ok(if sunday_ends { 7 } else { value });
        }
        let span = if span.is_empty() {
            self.span.clone()
        } else {
            span
        };
        let short = self.names().iter().find(|name| {
            text.len() > 3
                && text
                    .get(..3)
                    .is_some_and(|head| head.eq_ignore_ascii_case(name))
        });
        let intended = match short {
            Some(name) => format!("the three-letter name `{name}`"),
            None => self.form(),
        };
        let message = self.range_in_words();
        Err(self.error(Kind::NotAValue, span, message, intended))
    }

    fn step(&self, text: &str, span: Range<usize>, item: &Range<usize>) -> Result<u32, Error> {
        let span = if span.is_empty() { item.clone() } else { span };
        let step = match text.parse::<u32>() {
            Ok(step) if step > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => step,
            _ => {
                return Err(self.error(
                    Kind::BadStep,
                    span,
                    "a step is a whole number of at least 1",
                    "a step such as `*/5`",
                ));
            }
        };
        let limits = self.limits();
        let size = limits.max - limits.min + 1;
        if self.dialect == Dialect::Quartz && step >= size {
            let message = format!("a step of this field is at most {}", size - 1);
            let intended = format!("a step from 1 to {}", size - 1);
            return Err(self.error(Kind::StepTooLarge, span, message, intended));
        }
        Ok(step)
    }

    fn question_mark(&self, span: &Range<usize>, stepped: bool) -> Result<(), Error> {
        let day = matches!(self.name, FieldName::DayOfMonth | FieldName::DayOfWeek);
        let fits = match self.dialect {
            Dialect::Kubernetes => true,
            Dialect::Seconds => day && !stepped,
            Dialect::Quartz => day && self.span == *span,
            Dialect::Crontab | Dialect::CrontabPlain => false,
        };
        if fits {
            return Ok(());
        }
        let message = "`?` has no meaning here";
        Err(self.error(Kind::QuestionMark, span.clone(), message, "`*`"))
    }

    /// Reads `L`, `L-n`, `LW`, `L-nW`, `nW`, `dL`, `d#k`. Answers whether the item was one.
    fn modifier(&self, item: &str, span: &Range<usize>, field: &mut Field) -> Result<bool, Error> {
        let upper = item.to_ascii_uppercase();
        let looks_so = match self.name {
            FieldName::DayOfMonth => {
                upper.starts_with('L') || upper.ends_with(['L', 'W']) || upper.contains('#')
            }
            FieldName::DayOfWeek => {
                upper.contains('#') || upper.strip_suffix('L').is_some_and(|day| day.len() != 2)
            }
            _ => {
                upper.contains('#')
                    || matches!(
                        upper.trim_start_matches(|c: char| c.is_ascii_digit()),
                        "L" | "W" | "LW"
                    )
            }
        };
        if !looks_so {
            return Ok(false);
        }
        let malformed = |message: &str| {
            let intended = self.modified_form();
            self.error(Kind::Modifier, span.clone(), message, intended)
        };
        if !self.dialect.has_modifiers() {
            return Err(malformed("this dialect knows neither `L`, `W` nor `#`"));
        }
        match self.name {
            FieldName::DayOfMonth => {
                let (body, weekday) = match upper.strip_suffix('W') {
                    Some(body) => (body, true),
                    None => (&upper[..], false),
                };
                let days = &mut field.month_days;
                if let Some(rest) = body.strip_prefix('L') {
                    let back = if rest.is_empty() {
                        Some(0)
                    } else {
                        rest.strip_prefix('-').and_then(number)
                    };
                    let back = back.filter(|back| *back <= 30).ok_or_else(|| {
                        malformed(
                            "`L` is the last day, `L-n` is n days before it, with n from 0 to 30",
                        )
                    })?;
                    let set = if weekday {
                        &mut days.nearest_before_last
                    } else {
                        &mut days.before_last
                    };
                    *set |= 1 << back;
                } else {
                    let day = number(body).filter(|day| weekday && (1..=31).contains(day)).ok_or_else(|| {
                        malformed("a day field reads `L`, `L-n`, `LW`, `L-nW` and `nW`, with n from 1 to 31")
                    })?;
                    days.nearest |= 1 << day;
                }
            }
            FieldName::DayOfWeek if upper == "L" && self.dialect == Dialect::Quartz => {
                field.bits |= 1 << 6
            }
            FieldName::DayOfWeek => {
                let (day, nth) = match item.split_once('#') {
                    Some((day, nth)) => (day, number(nth).filter(|nth| (1..=5).contains(nth))),
                    None => (&item[..item.len() - 1], Some(0)),
                };
                let nth = nth.filter(|_| !day.is_empty()).ok_or_else(|| {
                    malformed("a weekday field reads `dL`, the last weekday d, and `d#k`, the k-th one, with k from 1 to 5")
                })?;
                let weekday =
                    self.weekday(self.value(day, span.start..span.start + day.len(), false)?);
                match nth {
                    0 => field.week_days.last |= 1 << weekday,
                    nth => field.week_days.nth |= 1 << (5 * weekday + nth - 1),
                }
            }
            _ => return Err(malformed("`L`, `W` and `#` belong to the day fields")),
        }
        Ok(true)
    }

    /// Reads `H`, `H/s`, `H(a-b)` and `H(a-b)/s`: a value that depends on the job's key alone.
    fn hashed(
        &self,
        base: &str,
        span: Range<usize>,
        step: Option<u32>,
        field: &mut Field,
    ) -> Result<(), Error> {
        let limits = self.limits();
        // Days 29 to 31 are left out, so that each month has its run.
        let (mut low, mut high) = match self.name {
            FieldName::DayOfMonth => (1, 28),
            _ => (limits.min, limits.max),
        };
        let inner = &base[1..];
        if !inner.is_empty() {
            let range = inner
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'))
                .and_then(|range| range.split_once('-'));
            let Some((from, to)) = range else {
                return Err(self.error(
                    Kind::Hash,
                    span,
                    "`H` stands alone or has a range in brackets",
                    format!("`H`, `H({}-{})` or `H/15`", limits.min, limits.max),
                ));
            };
            let start = span.start + 2;
            low = self.value(from, start..start + from.len(), false)?;
            high = self.value(to, start + from.len() + 1..span.end - 1, true)?;
            if low > high {
                let intended = format!("`H({high}-{low})`");
                let message = "a range never runs backward";
                return Err(self.error(Kind::Backward, span, message, intended));
            }
        }
        let Some(hash) = self.hash else {
            return Err(self.error(
                Kind::Hash,
                span,
                "`H` is spread by a job's key, and none was given",
                "a value of the field, or give the key of the job",
            ));
        };
        let spread = mix(hash ^ (self.name as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let size = u64::from(high - low + 1);
        field.hashed = true;
        match step {
            None => self.set(field, low + (spread % size) as u32),
            Some(step) => {
                let offset = (spread % u64::from(step).min(size)) as u32;
                self.fill(field, low + offset, high, step);
            }
        }
        Ok(())
    }

    fn range_in_words(&self) -> String {
        let limits = self.limits();
        match (self.name, self.dialect) {
            (FieldName::DayOfWeek, Dialect::Quartz) => {
                "weekdays go from 1 = Sunday to 7 = Saturday, or SUN to SAT".into()
            }
            (FieldName::DayOfWeek, Dialect::Kubernetes) => {
                "weekdays go from 0 = Sunday to 6 = Saturday, or SUN to SAT".into()
            }
            (FieldName::DayOfWeek, _) => {
                "weekdays go from 0 = Sunday to 6 = Saturday, 7 is Sunday too, or SUN to SAT".into()
            }
            (FieldName::Month, _) => "months go from 1 to 12, or JAN to DEC".into(),
            (FieldName::Hour, _) => "an hour goes from 0 to 23".into(),
            (name, _) => format!("a {name} goes from {} to {}", limits.min, limits.max),
        }
    }

    /// What the field reads, for a text in which nothing better was recognized.
    fn form(&self) -> String {
        let limits = self.limits();
        let (min, max) = (limits.min, limits.range_max);
        match self.names() {
            [first, .., last] => format!("`*`, a number from {min} to {max}, or {first} to {last}"),
            _ => format!("`*` or a number from {min} to {max}"),
        }
    }

    /// The same for one with a letter or sign that only day fields read.
    fn modified_form(&self) -> &'static str {
        match self.name {
            _ if !self.dialect.has_modifiers() => "days by their numbers",
            FieldName::DayOfMonth => "`L`, `L-3`, `LW`, `L-3W` or `15W`",
            FieldName::DayOfWeek => "`5L` or `5#2`",
            _ => "a number here, and the day in a day field",
        }
    }

    fn error(
        &self,
        kind: Kind,
        span: Range<usize>,
        message: impl Into<String>,
        intended: impl Into<String>,
    ) -> Error {
        Error::new(self.text, kind, self.name, span, message, intended)
    }
}

fn run(low: u32, high: u32) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low}-{high}")
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// The ASCII digit that a full-width or Arabic-Indic one stands for.
fn ascii_digit(odd: char) -> Option<u32> {
    [0xff10, 0x0660, 0x06f0, 0x0966]
        .into_iter()
        .find_map(|zero| (odd as u32).checked_sub(zero).filter(|digit| *digit < 10))
}

/// Spreads the bits of a hash (the finalizer of SplitMix64, public domain, Sebastiano Vigna).
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
