//! Why a cron expression was refused, where in the text, and what was probably meant.
//!
//! # Invariants
//! - `span` is a byte range of the text exactly as given, on character boundaries.
//! - Each [`Kind`] has one code; codes are never reused.
//! - Each error names the form that is meant: what is wrong alone helps nobody on.
//!
//! # Not here
//! Mapping the span into a job document's line and column: the edge that read the document does it.

use std::fmt;
use std::ops::Range;

/// The part of an expression that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldName {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
    /// The `TZ=` prefix.
    Zone,
    /// A nickname such as `@daily`, or the expression as a whole.
    Expression,
}

impl FieldName {
    /// The field's name as it stands in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            FieldName::Second => "second",
            FieldName::Minute => "minute",
            FieldName::Hour => "hour",
            FieldName::DayOfMonth => "day-of-month",
            FieldName::Month => "month",
            FieldName::DayOfWeek => "day-of-week",
            FieldName::Year => "year",
            FieldName::Zone => "zone",
            FieldName::Expression => "expression",
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Empty,
    FieldCount,
    NotAValue,
    OutOfRange,
    Backward,
    BadStep,
    StepWithoutRange,
    EmptyItem,
    QuestionMark,
    Modifier,
    Nickname,
    ZonePrefix,
    Hash,
    Never,
    TooLong,
    Every,
    StepTooLarge,
    ZoneConflict,
    NotAscii,
}

impl Kind {
    /// The code that a user looks up.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Empty => "SC1100",
            Kind::FieldCount => "SC1101",
            Kind::NotAValue => "SC1102",
            Kind::OutOfRange => "SC1103",
            Kind::Backward => "SC1104",
            Kind::BadStep => "SC1105",
            Kind::StepWithoutRange => "SC1106",
            Kind::EmptyItem => "SC1107",
            Kind::QuestionMark => "SC1108",
            Kind::Modifier => "SC1109",
            Kind::Nickname => "SC1110",
            Kind::ZonePrefix => "SC1111",
            Kind::Hash => "SC1112",
            Kind::Never => "SC1113",
            Kind::TooLong => "SC1114",
            Kind::Every => "SC1115",
            Kind::StepTooLarge => "SC1116",
            Kind::ZoneConflict => "SC1117",
            Kind::NotAscii => "SC1118",
        }
    }
}

/// A refused cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    pub kind: Kind,
    pub field: FieldName,
    /// Byte range of the offending text.
    pub span: Range<usize>,
    /// The same range counted in characters, from 0.
    pub chars: Range<usize>,
    /// The offending text.
    pub found: String,
    /// One sentence: what is wrong.
    pub message: String,
    /// The form that was probably meant, or the forms that are read here.
    pub intended: String,
}

impl Error {
    pub(super) fn new(
        text: &str,
        kind: Kind,
        field: FieldName,
        span: Range<usize>,
        message: impl Into<String>,
        intended: impl Into<String>,
    ) -> Error {
        let chars_before = |at: usize| text.get(..at).map_or(0, |head| head.chars().count());
        Error {
            kind,
            field,
            chars: chars_before(span.start)..chars_before(span.end),
            found: text.get(span.clone()).unwrap_or_default().to_owned(),
            span,
            message: message.into(),
            intended: intended.into(),
        }
    }

    /// The code that a user looks up, such as `SC1103`.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (
            self.chars.start + 1,
            self.chars.end.max(self.chars.start + 1),
        );
        write!(f, "{} {} field, ", self.code(), self.field)?;
        if from == to {
            write!(f, "character {from}: ")?;
        } else {
            write!(f, "characters {from}-{to}: ")?;
        }
        let (found, message, intended) = (&self.found, &self.message, &self.intended);
        write!(f, "found `{found}`: {message}; write {intended}")
    }
}
