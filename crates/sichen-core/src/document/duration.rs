//! A length of time as people write it: `500ms`, `10s`, `1h 30m`.
//!
//! # Not here
//! Days and longer: with summer time they have no fixed length. Write hours.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest length of time that a document or a flag may give: about 114 years.
pub const MAX_LENGTH: SignedDuration = SignedDuration::from_hours(1_000_000);

/// A length of time, not negative, at most [`MAX_LENGTH`], whole milliseconds at least in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub SignedDuration);

impl Duration {
    /// From seconds.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(SignedDuration::from_secs(seconds))
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is not a length of time; write it like `500ms`, `10s` or `1h 30m`")
        };
        let length = SignedDuration::from_str(text).map_err(|_| bad())?;
        if length.is_negative() {
            Err(bad())
        } else if length > MAX_LENGTH {
            Err(format!(
                "{text:?} is longer than {:#}, the limit",
                MAX_LENGTH
            ))
        } else {
            Ok(Self(length))
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A length of time.",
            "examples": ["500ms", "10s", "1h 30m"],
        })
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests;
