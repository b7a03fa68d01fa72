//! A schedule: a rule, a zone, what it does about clock changes, and the bounds within which it
//! holds.

use crate::calendar::{Filters, Kept};
use crate::text::{Dialect, Expression, Reading};
use crate::zone::Zone;

/// What a fixed time does that a clock change leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Once, at the first instant after the gap.
    FirstValid,
    /// Not at all.
    Skip,
    /// Later by the length of the gap.
    Shift,
}

/// What a fixed time does that a clock change repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// In the first pass only.
    First,
    /// In both.
    Both,
}

/// What makes the instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// An expression's fields.
    Clock(Box<Expression>),
    /// Multiples of a period from an anchor, in both directions; seconds.
    Every {
        /// At least 1.
        period: i64,
        /// One of the instants.
        anchor: i64,
    },
    /// One instant.
    Once(i64),
    /// These, in order and each once: what ends of runs have made of a rule without instants ahead.
    Listed(Vec<i64>),
}

/// One schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    pub rule: Rule,
    pub zone: Zone,
    pub gap: Gap,
    pub fold: Fold,
    /// The first second that counts.
    pub start: Option<i64>,
    /// The first second that does not count any more.
    pub end: Option<i64>,
    /// The calendars whose days it keeps to.
    pub filters: Filters,
}

impl Timetable {
    /// A rule that is the same in every zone.
    #[must_use]
    pub fn of(rule: Rule, zone: Zone) -> Timetable {
        Timetable {
            rule,
            zone,
            gap: Gap::FirstValid,
            fold: Fold::First,
            start: None,
            end: None,
            filters: Filters::new(),
        }
    }

    /// Instants that no rule tells ahead: see [`Rule::Listed`].
    #[must_use]
    pub fn listed(mut instants: Vec<i64>) -> Timetable {
        instants.sort_unstable();
        instants.dedup();
        Timetable::of(Rule::Listed(instants), Zone::utc())
    }

    /// An expression in a zone, with its dialect's own habits about clock changes. `@every` counts
    /// from `anchor`.
    ///
    /// # Errors
    /// What is not understood.
    pub fn cron(
        text: &str,
        dialect: Dialect,
        zone: &str,
        seed: Option<u64>,
        anchor: i64,
    ) -> Result<Timetable, String> {
        let (reading, named) = Expression::read(text, dialect, seed)?;
        let zone = Zone::named(named.as_deref().unwrap_or(zone))?;
        let rule = match reading {
            Reading::Fields(expression) => Rule::Clock(expression),
            Reading::Every(period) => Rule::Every { period, anchor },
        };
        let (gap, fold) = match dialect {
            Dialect::Kubernetes => (Gap::Skip, Fold::Both),
            _ => (Gap::FirstValid, Fold::First),
        };
        Ok(Timetable {
            gap,
            fold,
            ..Timetable::of(rule, zone)
        })
    }

    /// The same with other habits about clock changes.
    #[must_use]
    pub fn with(self, gap: Gap, fold: Fold) -> Timetable {
        Timetable { gap, fold, ..self }
    }

    /// The instants after `after` and up to `through`, in order.
    #[must_use]
    pub fn instants(&self, after: i64, through: i64) -> Kept<'_> {
        let after = self.start.map_or(after, |start| after.max(start - 1));
        let through = self.end.map_or(through, |end| through.min(end - 1));
        Kept::new(self, &self.filters, after, through)
    }

    /// Clock changes after `after` and up to `through` at which fixed times fall out, and how many.
    #[must_use]
    pub fn left_out(&self, after: i64, through: i64) -> Vec<(i64, u64)> {
        let Rule::Clock(expression) = &self.rule else {
            return Vec::new();
        };
        if expression.interval || self.gap != Gap::Skip {
            return Vec::new();
        }
        let within = |at: i64| {
            (after < at && at <= through)
                && self.start.is_none_or(|start| at >= start)
                && self.end.is_none_or(|end| at < end)
        };
        let changes = self.zone.changes().iter().filter(|(at, _)| within(*at));
        changes
            .map(|(at, _)| {
                (
                    *at,
                    crate::walk::missing(expression, &self.zone, *at).len() as u64,
                )
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// The hash that spreads `H`, of a job's key: FNV-1a, then [`mix`]ed. Written down in the guide, so
/// that anybody can compute it.
#[must_use]
pub fn hash_of_key(key: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key.as_bytes() {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// The finalizer of SplitMix64.
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
