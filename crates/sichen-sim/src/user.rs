//! The user's own database: a fence and a position for each shard, and how often each item counted.
//!
//! # Invariants
//! - A write with a token below the opened one changes nothing.
//!
//! # Not here
//! Sichen's store.

use std::collections::BTreeMap;

/// One shard's row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Highest token opened.
    pub token: u64,
    /// Items done.
    pub position: usize,
    /// How often each item was counted.
    pub counted: Vec<u32>,
}

/// All rows, by fence key.
#[derive(Clone, Debug, Default)]
pub struct UserStore {
    rows: BTreeMap<String, Row>,
    /// Writes and opens that the fence refused.
    pub refused: u64,
    /// Opens that found a position beyond 0: work went on where it had stopped.
    pub resumed: u64,
}

/// The fence holds a newer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale;

impl UserStore {
    /// Raises the token; returns the position to go on from.
    ///
    /// # Errors
    /// [`Stale`] if a newer token was opened.
    pub fn open(&mut self, key: &str, token: u64, items: usize) -> Result<usize, Stale> {
        let row = self.rows.entry(key.to_owned()).or_default();
        row.counted.resize(items, 0);
        if token < row.token {
            self.refused += 1;
            return Err(Stale);
        }
        row.token = token;
        self.resumed += u64::from(row.position > 0);
        Ok(row.position)
    }

    /// Counts the item at `position` and moves on, in one transaction.
    ///
    /// # Errors
    /// [`Stale`] if a newer token was opened.
    pub fn write(&mut self, key: &str, token: u64, position: usize) -> Result<(), Stale> {
        let Some(row) = self.rows.get_mut(key) else {
            return Err(Stale);
        };
        if token < row.token {
            self.refused += 1;
            return Err(Stale);
        }
        if let Some(count) = row.counted.get_mut(position) {
            *count += 1;
        }
        row.position = position + 1;
        Ok(())
    }

    /// A shard's row.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<&Row> {
        self.rows.get(key)
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = (&String, &Row)> {
        self.rows.iter()
    }
}
