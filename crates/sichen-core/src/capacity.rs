//! Named capacities: how much of a shared thing may be held at once, and taken in a stretch of time.
//!
//! A capacity has units, a rate, or both. An attempt holds units from its grant to its end, and
//! takes tokens of the rate once, at its grant. Everything here is arithmetic over what one
//! transaction of a store has under lock.
//!
//! # Invariants
//! - A [`Ledger`] takes all that a grant uses or nothing, and never above the limits it was opened
//!   with.
//! - A [`Bucket`] never holds more than its burst, and gains no more than its rate, to the microsecond.
//! - Taking is refused by what is used above a lowered limit; what is held is never taken back.
//!
//! # Not here
//! Rows and locks (the stores); whose turn it is ([`line`]).

mod apply;
pub mod line;
mod rate;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::ids::RunId;
use crate::name::{Name, nearest};

pub use apply::{Applied, apply};
pub use rate::{Bucket, MAX_BURST, Per, Rate};

/// The most units a capacity may have.
pub const MAX_UNITS: u32 = 1_000_000;
/// The most capacities one job may use.
pub const MAX_USES: usize = 16;

/// What limits a capacity; at least one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Units that may be held at once; 0 lets nothing start.
    pub units: Option<u32>,
    /// How fast tokens come.
    pub rate: Option<Rate>,
}

impl Limits {
    /// The largest need that can ever be met, if there is a bound.
    #[must_use]
    pub fn most(&self) -> Option<u32> {
        let burst = self.rate.map(|rate| rate.burst);
        self.units.into_iter().chain(burst).min()
    }

    /// What the event of a change says.
    #[must_use]
    pub fn told(&self) -> serde_json::Value {
        let rate = self.rate.map(
            |rate| serde_json::json!({ "count": rate.count, "per_us": rate.per.micros(), "burst": rate.burst }),
        );
        serde_json::json!({ "units": self.units, "rate": rate })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.units, self.rate) {
            (Some(units), Some(rate)) => write!(f, "{units} units, {rate}"),
            (Some(units), None) => write!(f, "{units} units"),
            (None, Some(rate)) => rate.fmt(f),
            (None, None) => f.write_str("no limit"),
        }
    }
}

/// What each attempt of a run uses: weights by capacity, each at least 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(BTreeMap<Name, u32>);

impl Uses {
    /// These weights; what weighs nothing is left out.
    #[must_use]
    pub fn new(weights: impl IntoIterator<Item = (Name, u32)>) -> Self {
        Self(weights.into_iter().filter(|(_, n)| *n > 0).collect())
    }

    /// Whether nothing is used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Weights by capacity, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u32)> {
        self.0.iter().map(|(name, units)| (name, *units))
    }

    /// The weight on one capacity.
    #[must_use]
    pub fn of(&self, name: &Name) -> Option<u32> {
        self.0.get(name).copied()
    }

    /// The capacities, in the order of names.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.0.keys()
    }

    /// As a JSON object, as columns and events keep it.
    #[must_use]
    pub fn told(&self) -> serde_json::Value {
        let weights = self.iter().map(|(name, n)| (name.to_string(), n.into()));
        serde_json::Value::Object(weights.collect())
    }

    /// The text of [`Uses::told`]; `None` if nothing is used.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.told().to_string())
    }

    /// Reads what [`Uses::text`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let weights: BTreeMap<String, u32> = serde_json::from_str(text).ok()?;
        let weights = weights.into_iter();
        let named = weights.map(|(name, n)| Some((Name::new(&name).ok()?, n)));
        named.collect::<Option<BTreeMap<_, _>>>().map(Uses::new)
    }
}

/// The environment variable in which a process finds how many units of a capacity it holds:
/// `SICHEN_USES_` and the name in capitals, each `-` and `.` as `_`.
#[must_use]
pub fn variable(capacity: &str) -> String {
    let plain = |c: char| match c {
        '-' | '.' => '_',
        c => c.to_ascii_uppercase(),
    };
    let name: String = capacity.chars().map(plain).collect();
    format!("SICHEN_USES_{name}")
}

/// One capacity as a transaction found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its limits.
    pub limits: Limits,
    /// Units held at the transaction's instant.
    pub used: u64,
    /// Its bucket; empty and meaningless without a rate.
    pub bucket: Bucket,
}

impl Account {
    /// Whether `units` can be taken at `now`.
    ///
    /// # Errors
    /// What is short.
    pub fn check(&self, units: u32, now: Timestamp) -> Result<(), Lack> {
        if let Some(limit) = self.limits.units
            && self.used + u64::from(units) > u64::from(limit)
        {
            let used = self.used;
            return Err(Lack::Units { limit, used });
        }
        if let Some(rate) = self.limits.rate {
            let bucket = self.bucket.filled(rate, now);
            if !bucket.holds(rate, units) {
                let at = bucket.ready_at(rate, units);
                return Err(Lack::Rate { rate, at });
            }
        }
        Ok(())
    }

    /// Takes what [`Account::check`] allows.
    fn take(&mut self, units: u32, now: Timestamp) {
        self.used += u64::from(units);
        if let Some(rate) = self.limits.rate {
            self.bucket = self.bucket.filled(rate, now).taken(rate, units);
        }
    }
}

/// Why a grant's use of a capacity can't be met now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// There is no such capacity any more.
    Missing,
    /// So many units are held of the limit.
    Units {
        /// The limit in force.
        limit: u32,
        /// Units held; more than the limit if that was lowered.
        used: u64,
    },
    /// The tokens come later.
    Rate {
        /// The rate in force.
        rate: Rate,
        /// When there will be enough if nobody takes any; `None` for more than the burst.
        at: Option<Timestamp>,
    },
    /// What there is gathers for this run, which came first.
    Reserved {
        /// The run in front.
        run: RunId,
    },
}

impl Lack {
    /// When it ends by time alone, if nobody takes anything: the tokens have come.
    #[must_use]
    pub fn ends_at(&self) -> Option<Timestamp> {
        match self {
            Self::Rate { at, .. } => *at,
            Self::Missing | Self::Units { .. } | Self::Reserved { .. } => None,
        }
    }
}

/// The first capacity of a grant that is short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// Which.
    pub capacity: Name,
    /// What the grant needs of it.
    pub needs: u32,
    /// What is short.
    pub lack: Lack,
}

impl Short {
    /// Whether waiting can help: a need above the limit itself waits for a resize alone.
    #[must_use]
    pub fn can_come(&self) -> bool {
        match self.lack {
            Lack::Missing => false,
            Lack::Units { limit, .. } => self.needs <= limit,
            Lack::Rate { at, .. } => at.is_some(),
            Lack::Reserved { .. } => true,
        }
    }
}

/// The capacities of one transaction, and what it has taken of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    accounts: BTreeMap<Name, Account>,
    taken: BTreeMap<Name, u32>,
}

impl Ledger {
    /// Opens the accounts of these capacities.
    #[must_use]
    pub fn open(accounts: impl IntoIterator<Item = (Name, Account)>) -> Self {
        Self {
            accounts: accounts.into_iter().collect(),
            taken: BTreeMap::new(),
        }
    }

    /// Whether one grant that uses `uses` can be made at `now`.
    ///
    /// # Errors
    /// The first capacity that is short.
    pub fn check(&self, uses: &Uses, now: Timestamp) -> Result<(), Short> {
        for (name, needs) in uses.iter() {
            let checked = match self.accounts.get(name) {
                None => Err(Lack::Missing),
                Some(account) => account.check(needs, now),
            };
            checked.map_err(|lack| Short {
                capacity: name.clone(),
                needs,
                lack,
            })?;
        }
        Ok(())
    }

    /// Takes what one grant uses: all, or nothing.
    ///
    /// # Errors
    /// As [`Ledger::check`].
    pub fn take(&mut self, uses: &Uses, now: Timestamp) -> Result<(), Short> {
        self.check(uses, now)?;
        for (name, units) in uses.iter() {
            if let Some(account) = self.accounts.get_mut(name) {
                account.take(units, now);
                *self.taken.entry(name.clone()).or_default() += units;
            }
        }
        Ok(())
    }

    /// Buckets that tokens were taken from, as they are now.
    pub fn changed(&self) -> impl Iterator<Item = (&Name, Bucket)> {
        let limited = |name: &&Name| {
            let account = self.accounts.get(*name);
            account.filter(|a| a.limits.rate.is_some())
        };
        let taken = self.taken.keys();
        taken.filter_map(move |name| Some((name, limited(&name)?.bucket)))
    }
}

/// Until when what an attempt held counts on, if its end at `now` is not confirmed: `dead_by` is when its
/// task tree is surely gone.
#[must_use]
pub fn held_until(uses: &Uses, dead_by: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    dead_by.filter(|until| !uses.is_empty() && *until > now)
}

/// What to say of a capacity that does not exist, to the one who names it.
#[must_use]
pub fn unknown(name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there are none yet; apply it first".to_owned(),
        None => format!("known: `{}`; apply it first", known.join("`, `")),
    };
    format!("SC1060: there is no capacity `{name}`: {hint}")
}

#[cfg(test)]
mod tests;
