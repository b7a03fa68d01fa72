//! What the demo's workers tell the director, one JSON line each, and what it orders.
//!
//! It shows what happens and lets the director choose the worst moment; settling does not depend
//! on it.
//!
//! # Not here
//! The session with the server: the workers have that beside this, like any worker.

use serde::{Deserialize, Serialize};

/// Take no further batch to its commit: read it, say [`Notice::Holding`], wait for [`GO`].
pub const HOLD: &[u8] = b"hold\n";
/// Go on after [`HOLD`].
pub const GO: &[u8] = b"go\n";
/// Wait before opening the fence of a shard that was taken over, until [`OPEN`].
pub const HOLD_OPEN: &[u8] = b"hold-open\n";
/// Open after [`HOLD_OPEN`], now and from now on.
pub const OPEN: &[u8] = b"open\n";
/// Longest line of a notice, in bytes.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// One line from a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub pid: u32,
    pub worker: String,
    pub run: String,
    pub shard: i32,
    pub token: u64,
    pub attempt: u32,
    #[serde(flatten)]
    pub notice: Notice,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Notice {
    /// A shard was taken over and its fence is not opened before the director says so.
    Granted,
    /// The fence was opened.
    Opened {
        /// First and last id of the shard.
        from: i64,
        upper: i64,
        /// What the business database held.
        checkpoint: Option<i64>,
        /// What Sichen showed with the grant.
        display: Option<i64>,
        /// Where the attempt starts: behind this id.
        after: i64,
    },
    /// A batch was read and is not committed before the director says so.
    Holding { last_id: i64, entries: u64 },
    /// A batch was committed.
    Committed { checkpoint: i64, entries: u64 },
    /// The business database refused a write (or an `open`).
    Refused {
        last_id: Option<i64>,
        database: String,
    },
    /// The shard has no entries left.
    Settled { entries: u64 },
}
