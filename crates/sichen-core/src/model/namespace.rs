//! What a namespace may have: its part of the pools, shards that run, runs that wait.
//!
//! # Not here
//! Whose turn it is ([`crate::dispatch::fair`]); counting, and the locks under which it is done (the stores).

use crate::name::Name;

/// The highest limit of a namespace's queued runs: they are counted whenever one is to be written.
pub const MAX_QUEUED_RUNS: u32 = 100_000;

/// What a namespace may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Name,
    /// Raised by each change; 0 if nobody has set anything.
    pub ver: u32,
    /// Its part of a pool beside others', 1 to [`crate::dispatch::fair::MAX_WEIGHT`].
    pub weight: u32,
    /// Shards that may run at once, in all pools together; no limit if `None`.
    pub max_running: Option<u32>,
    /// Runs that may be `scheduled` at once, of which nothing was started; no limit if `None`.
    pub max_queued: Option<u32>,
}

/// A change of what a namespace may have; what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceChange {
    /// The weight.
    pub weight: Option<u32>,
    /// The most shards at once; `Some(None)` takes the limit away.
    pub max_running: Option<Option<u32>>,
    /// The most queued runs; `Some(None)` takes the limit away.
    pub max_queued: Option<Option<u32>>,
}

/// What a namespace has now of what is limited; counted only where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceUse {
    /// Shards that run.
    pub running: Option<u32>,
    /// Runs of which nothing was started.
    pub queued: Option<u32>,
}

/// Why no more runs of a namespace are written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull {
    /// So many may be queued.
    pub most: u32,
    /// So many are.
    pub queued: u32,
}

impl QueueFull {
    /// How many more there is room for: fewer than were to be written.
    #[must_use]
    pub fn room(self) -> u32 {
        self.most.saturating_sub(self.queued)
    }
}

impl Namespace {
    /// With `change`; the next version, or the same if nothing changes.
    #[must_use]
    pub fn changed(self, change: &NamespaceChange) -> Self {
        let mut new = self.clone();
        new.weight = change.weight.unwrap_or(new.weight);
        new.max_running = change.max_running.unwrap_or(new.max_running);
        new.max_queued = change.max_queued.unwrap_or(new.max_queued);
        new.ver += u32::from(new != self);
        new
    }

    /// A namespace of which nothing was set.
    #[must_use]
    pub fn plain(name: Name) -> Self {
        Self {
            name,
            ver: 0,
            weight: crate::dispatch::fair::WEIGHT,
            max_running: None,
            max_queued: None,
        }
    }

    /// Whether `more` runs may join those that are `queued`. They do so together or not at all.
    ///
    /// # Errors
    /// [`QueueFull`] if not.
    pub fn admits(&self, queued: u32, more: u32) -> Result<(), QueueFull> {
        match self.max_queued {
            Some(most) if more > 0 && queued.saturating_add(more) > most => {
                Err(QueueFull { most, queued })
            }
            Some(_) | None => Ok(()),
        }
    }
}
