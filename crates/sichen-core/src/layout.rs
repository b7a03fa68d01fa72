//! How a run's input is cut into shards.
//!
//! # Invariants
//! - The shards of a layout cover its whole input and never overlap (property-tested).
//! - The bounds are fixed once per run: the same run is never cut twice.
//!
//! # Not here
//! Reading bounds from a data source (a worker does, as the run's plan step); the state of a shard
//! ([`crate::lifecycle`]).

use serde::{Deserialize, Serialize};

/// The most shards one run may have.
pub const MAX_SHARDS: u32 = 100_000;

/// The longest item, in bytes.
pub const MAX_ITEM_BYTES: usize = 1_024;

/// What one shard has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Descriptor {
    /// All of it: the only shard of an unsharded run.
    Whole,
    /// Its share by number: the worker takes what hashes to `index` of `total`.
    Index,
    /// Keys `from <= key < to`; integers, or instants in microseconds since 1970.
    Range {
        /// First key.
        from: i64,
        /// First key that is not in it; `to == from` is an empty shard.
        to: i64,
    },
    /// One named item, such as a tenant.
    Item(String),
    /// The plan step: run `sql` once on `data_source` and report its single row (least and
    /// greatest key, or two NULLs for no input).
    Plan {
        /// Name of a data source in the worker's own configuration.
        data_source: String,
        /// The query.
        sql: String,
    },
}

/// How a key range is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Into this many shards whose sizes differ by at most one.
    Count(u32),
    /// Into shards of this many keys; the last may be smaller.
    Size(u64),
}

/// A layout whose input is known: ready to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One shard.
    Single,
    /// `n` shards by index.
    Count(u32),
    /// Keys `from <= key < to`.
    Range {
        /// First key.
        from: i64,
        /// First key outside.
        to: i64,
        /// How to cut.
        cut: Cut,
    },
    /// One shard an item.
    Items(Vec<String>),
}

/// Why a layout can't be cut.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More shards than a run may have.
    #[error(
        "SC1301: the layout gives {shards} shards, the limit is {MAX_SHARDS}; use larger shards"
    )]
    TooMany {
        /// How many it would give.
        shards: u128,
    },
    /// No shards asked for.
    #[error("SC1302: a count or size of 0 covers nothing; use at least 1")]
    Zero,
    /// Bounds the wrong way round.
    #[error("SC1303: the range runs backwards: from {from} is after to {to}")]
    Backwards {
        /// First key.
        from: i64,
        /// First key outside.
        to: i64,
    },
    /// The greatest key can't be followed by another.
    #[error("SC1304: the greatest key is {max}, which leaves no number for the end of the range")]
    NoEnd {
        /// The greatest key.
        max: i64,
    },
    /// The same item twice.
    #[error("SC1305: item {item:?} is listed twice; each item may be one shard only")]
    Duplicate {
        /// The repeated item.
        item: String,
    },
    /// An item that is empty or too long.
    #[error("SC1306: item {index} has {bytes} bytes; 1 to {MAX_ITEM_BYTES} are allowed")]
    ItemLength {
        /// Its place in the list, from 0.
        index: usize,
        /// Its length.
        bytes: usize,
    },
}

impl Layout {
    /// The range that covers keys `min..=max`; no keys give an empty range, hence no shards.
    ///
    /// # Errors
    /// [`Error::NoEnd`] if `max` is the greatest integer, [`Error::Backwards`] if `min > max`.
    pub fn from_extremes(keys: Option<(i64, i64)>, cut: Cut) -> Result<Self, Error> {
        let Some((min, max)) = keys else {
            return Ok(Layout::Items(Vec::new()));
        };
        let to = max.checked_add(1).ok_or(Error::NoEnd { max })?;
        if min > max {
            return Err(Error::Backwards { from: min, to });
        }
        Ok(Layout::Range { from: min, to, cut })
    }

    /// Cuts the input. Shard numbers are the places in the answer.
    ///
    /// An empty range cut by size, and an empty list, give no shards: such a run succeeds at once.
    ///
    /// # Errors
    /// [`Error`], and then nothing was cut.
    pub fn cut(&self) -> Result<Vec<Descriptor>, Error> {
        match self {
            Layout::Single => Ok(vec![Descriptor::Whole]),
            Layout::Count(n) => {
                let n = checked(u128::from(*n))?;
                if n == 0 {
                    return Err(Error::Zero);
                }
                Ok(vec![Descriptor::Index; n])
            }
            Layout::Range { from, to, cut } => cut_range(*from, *to, *cut),
            Layout::Items(items) => {
                checked(items.len() as u128)?;
                let mut seen = std::collections::BTreeSet::new();
                for (index, item) in items.iter().enumerate() {
                    if item.is_empty() || item.len() > MAX_ITEM_BYTES {
                        return Err(Error::ItemLength {
                            index,
                            bytes: item.len(),
                        });
                    }
                    if !seen.insert(item) {
                        return Err(Error::Duplicate { item: item.clone() });
                    }
                }
                Ok(items.iter().cloned().map(Descriptor::Item).collect())
            }
        }
    }
}

fn cut_range(from: i64, to: i64, cut: Cut) -> Result<Vec<Descriptor>, Error> {
    if from > to {
        return Err(Error::Backwards { from, to });
    }
    // i128: the width of the widest range does not fit 64 bits.
    let width = i128::from(to) - i128::from(from);
    let shards = match cut {
        Cut::Count(0) | Cut::Size(0) => return Err(Error::Zero),
        Cut::Count(n) => i128::from(n),
        Cut::Size(size) => (width + i128::from(size) - 1) / i128::from(size),
    };
    let n = checked(shards.unsigned_abs())?;
    let edge = |i: usize| {
        let i = i as i128;
        let offset = match cut {
            Cut::Count(_) => width * i / shards,
            Cut::Size(size) => (i128::from(size) * i).min(width),
        };
        i64::try_from(i128::from(from) + offset).unwrap_or(to)
    };
    Ok((0..n)
        .map(|i| Descriptor::Range {
            from: edge(i),
            to: edge(i + 1),
        })
        .collect())
}

fn checked(shards: u128) -> Result<usize, Error> {
    if shards > u128::from(MAX_SHARDS) {
        return Err(Error::TooMany { shards });
    }
    usize::try_from(shards).map_err(|_| Error::TooMany { shards })
}

/// The shard of `total` to which `key` belongs under [`Layout::Count`]: the same on every worker,
/// in every language and version (FNV-1a, finished by SplitMix64, then modulo).
///
/// # Panics
/// Never for `total >= 1`; a `total` of 0 gives 0.
#[must_use]
pub fn index_of(key: &[u8], total: u32) -> u32 {
    u32::try_from(stable_hash(key) % u64::from(total.max(1))).unwrap_or(0)
}

/// A hash that is the same in every build and on every machine. Not for what an adversary chooses.
pub(crate) fn stable_hash(key: &[u8]) -> u64 {
    let mut x = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
    });
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
#[path = "layout/tests.rs"]
mod tests;
