//! A rate, and the bucket that keeps it: whole numbers, so that no rounding adds up.
//!
//! One token is as many points as the rate's period has microseconds, and each microsecond brings as
//! many points as the rate has tokens a period.
//!
//! # Not here
//! Units that are held ([`super`]).

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The most tokens a bucket may hold, and the most that may come in one period.
pub const MAX_BURST: u32 = 1_000_000;

/// The stretch of time that a rate counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// `/s`
    Second,
    /// `/m`
    Minute,
    /// `/h`
    Hour,
    /// `/d`: 24 hours.
    Day,
}

impl Per {
    const ALL: [(Per, &'static str, i64); 4] = [
        (Per::Second, "s", 1_000_000),
        (Per::Minute, "m", 60_000_000),
        (Per::Hour, "h", 3_600_000_000),
        (Per::Day, "d", 86_400_000_000),
    ];

    fn row(self) -> (Per, &'static str, i64) {
        let found = Self::ALL.into_iter().find(|(per, ..)| *per == self);
        found.unwrap_or(Self::ALL[0])
    }

    /// Its length in microseconds.
    #[must_use]
    pub fn micros(self) -> i64 {
        self.row().2
    }

    /// The one of this length.
    #[must_use]
    pub fn of_micros(micros: i64) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(.., n)| *n == micros);
        found.map(|(per, ..)| per)
    }
}

/// How fast tokens come, and how many may gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a period, at least 1.
    pub count: u32,
    /// The period.
    pub per: Per,
    /// How many gather while none is taken, at least 1.
    pub burst: u32,
}

impl Rate {
    /// Reads `50/s`; the burst is one period's tokens, or as given.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str, burst: Option<u32>) -> Result<Self, String> {
        let form = || {
            format!(
                "SC1061: {text:?} is no rate; write tokens a second, minute, hour or day, such as \
                 `50/s`, `100/m`, `1000/h` or `5000/d`"
            )
        };
        let (count, per) = text.split_once('/').ok_or_else(form)?;
        let count: u32 = count.trim().parse().map_err(|_| form())?;
        let per = Per::ALL
            .into_iter()
            .find(|(_, word, _)| *word == per.trim());
        let (per, ..) = per.ok_or_else(form)?;
        let burst = burst.unwrap_or(count);
        for n in [count, burst] {
            if !(1..=MAX_BURST).contains(&n) {
                return Err(format!("SC1002: {n} is outside 1 to {MAX_BURST}"));
            }
        }
        Ok(Self { count, per, burst })
    }

    /// Reads `50/s` as a rate that lets through evenly: the burst is a second's tokens, or one.
    ///
    /// # Errors
    /// As [`Rate::parse`].
    pub fn even(text: &str) -> Result<Self, String> {
        let rate = Self::parse(text, None)?;
        let seconds = rate.per.micros() / Per::Second.micros();
        let second = i64::from(rate.count).div_euclid(seconds.max(1));
        let burst = u32::try_from(second).unwrap_or(MAX_BURST).max(1);
        Ok(Self { burst, ..rate })
    }

    /// As [`Rate::parse`] reads it, without the burst.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}/{}", self.count, self.per.row().1)
    }

    fn full(self) -> i64 {
        i64::from(self.burst) * self.per.micros()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} burst {}", self.text(), self.burst)
    }
}

/// What a rate has gathered at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Points: tokens times the rate's period in microseconds.
    pub level: i64,
    /// When it was so.
    pub at: Timestamp,
}

impl Bucket {
    /// As full as `rate` allows.
    #[must_use]
    pub fn full(rate: Rate, at: Timestamp) -> Self {
        let level = rate.full();
        Self { level, at }
    }

    /// Without anything.
    #[must_use]
    pub fn empty(at: Timestamp) -> Self {
        Self { level: 0, at }
    }

    /// As it is at `now`, if that is later.
    #[must_use]
    pub fn filled(self, rate: Rate, now: Timestamp) -> Self {
        let elapsed = now
            .as_microsecond()
            .saturating_sub(self.at.as_microsecond());
        if elapsed <= 0 {
            return self;
        }
        let gained = i128::from(elapsed) * i128::from(rate.count);
        let level = (i128::from(self.level) + gained).min(i128::from(rate.full()));
        let level = i64::try_from(level).unwrap_or(rate.full());
        // In whole microseconds, as a store keeps it.
        let at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        Self { level, at }
    }

    /// Whether it holds so many tokens as it stands.
    #[must_use]
    pub fn holds(self, rate: Rate, tokens: u32) -> bool {
        self.level >= i64::from(tokens) * rate.per.micros()
    }

    /// Whole tokens in it as it stands.
    #[must_use]
    pub fn tokens(self, rate: Rate) -> u32 {
        u32::try_from(self.level / rate.per.micros()).unwrap_or(0)
    }

    /// When it will hold so many, if nobody takes any; `None` if it never can.
    #[must_use]
    pub fn ready_at(self, rate: Rate, tokens: u32) -> Option<Timestamp> {
        if tokens > rate.burst {
            return None;
        }
        let missing = i64::from(tokens) * rate.per.micros() - self.level;
        let wait = missing.max(0).div_euclid(i64::from(rate.count));
        let rest = missing.max(0).rem_euclid(i64::from(rate.count));
        let wait = SignedDuration::from_micros(wait + i64::from(rest > 0));
        self.at.checked_add(wait).ok()
    }

    /// Without so many tokens, which it holds.
    #[must_use]
    pub fn taken(self, rate: Rate, tokens: u32) -> Self {
        let level = self.level - i64::from(tokens) * rate.per.micros();
        debug_assert!(level >= 0, "more is taken than was there");
        Self { level, ..self }
    }

    /// What becomes of it when the rate changes at `now`: whole tokens stay, up to the new burst; a
    /// rate that is new begins full.
    #[must_use]
    pub fn changed(self, old: Option<Rate>, new: Option<Rate>, now: Timestamp) -> Self {
        match (old, new) {
            (_, None) => Self::empty(now),
            (None, Some(new)) => Self::full(new, now),
            (Some(old), Some(new)) => {
                let before = self.filled(old, now);
                if old.per == new.per {
                    let level = before.level.min(new.full());
                    return Self { level, ..before };
                }
                let tokens = before.tokens(old).min(new.burst);
                let level = i64::from(tokens) * new.per.micros();
                Self { level, ..before }
            }
        }
    }
}
