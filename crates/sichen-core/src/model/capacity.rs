//! Capacities, and what is held of them.
//!
//! # Not here
//! The arithmetic ([`crate::capacity`]).

use jiff::Timestamp;

use crate::capacity::{Account, Bucket, Limits};
use crate::ids::{RunId, SessionId, ShardKey, Token};
use crate::name::{JobName, Name};

/// A capacity's row. All namespaces share its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Its name.
    pub name: Name,
    /// Version of the row; every change raises it, a deletion too.
    pub ver: u32,
    /// The document as stored (JSON of [`crate::document::CapacityDocument`]).
    pub document: String,
    /// Its limits, from the document.
    pub limits: Limits,
    /// What its rate has gathered.
    pub bucket: Bucket,
    /// When this version was written.
    pub changed_at: Timestamp,
}

/// Units that an attempt holds, or held when it ended without its worker's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The shard.
    pub key: ShardKey,
    /// The attempt's token.
    pub token: Token,
    /// The capacity.
    pub capacity: Name,
    /// How many.
    pub units: u32,
    /// The session that the attempt was given to.
    pub session: SessionId,
    /// Since when.
    pub since: Timestamp,
    /// While its attempt runs, none. Else the instant from which on it counts no more: by then the
    /// task tree is surely gone.
    pub until: Option<Timestamp>,
}

impl Hold {
    /// Whether it counts at `now`.
    #[must_use]
    pub fn counts(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// How a capacity stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its row.
    pub capacity: Capacity,
    /// Units held.
    pub used: u64,
    /// Holds that count.
    pub holds: u32,
    /// When the first of those that nobody has confirmed dead counts no more.
    pub next_end: Option<Timestamp>,
}

impl Standing {
    /// What a grant is judged by.
    #[must_use]
    pub fn account(&self) -> Account {
        Account {
            limits: self.capacity.limits,
            used: self.used,
            bucket: self.capacity.bucket,
        }
    }
}

/// A run whose shards are ready and use a capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job_name: JobName,
    /// Its pool.
    pub pool: Name,
    /// Units that each of its attempts needs.
    pub units: u32,
    /// Since when the first of its waiting shards has been ready.
    pub since: Timestamp,
}
