//! The identities that rows, events and messages refer to.
//!
//! Names are for display and may be reused; identities never are. A fencing token and a term are
//! numbers that only rise, so comparing two of them says which holder is the newer one.
//!
//! # Not here
//! Making identities: stores hand out run and session ids, edges make job uids and operation ids.

use std::fmt;

use jiff::Timestamp;
use uuid::Uuid;

use crate::restore::LOST_TAIL;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// A run's row, unique in its store.
    RunId(u64)
);
number_id!(
    /// A backfill's row, unique in its store.
    BackfillId(u64)
);
number_id!(
    /// A worker's live registration: new at each registration, never reused.
    SessionId(u64)
);
number_id!(
    /// A server node's live registration: new at each process start.
    NodeId(u64)
);
number_id!(
    /// Number of a duty's owner, raised at every change of owner. 0 means never owned.
    Term(u64)
);
number_id!(
    /// A job's numbered version, from 1.
    Revision(u32)
);

/// A fencing token: `store_epoch << 32 | grant number`, raised at every grant of its shard.
///
/// Below 2^63, so that every database's signed 64-bit integer holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The token that follows this one in a store whose epoch is `epoch`.
    ///
    /// After a restore the epoch is higher, so the first grant jumps above every token that the
    /// lost tail may have given out.
    #[must_use]
    pub fn next(self, epoch: u32) -> Token {
        let floor = u64::from(epoch) << 32;
        Token(self.0.max(floor) + 1)
    }

    /// The cause with which a report under this token is refused, where the shard's token is
    /// `current`: `stale`, or `lost_tail` if this one is newer than any that the store has given out.
    #[must_use]
    pub fn refused_as(self, current: Token) -> &'static str {
        if self > current { LOST_TAIL } else { "stale" }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job's identity: new at each creation, so that deleting and recreating a name never mixes
/// histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobUid(pub Uuid);

impl fmt::Display for JobUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// The operation id of one mutation, by which an unknown commit is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub Uuid);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// A shard's number within its run: 0 to total − 1, or [`ShardNo::PLAN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNo(pub i32);

impl ShardNo {
    /// The step that finds a run's shards (reads its bounds or items) before there are any.
    pub const PLAN: ShardNo = ShardNo(-1);

    /// Whether this is the plan step.
    #[must_use]
    pub fn is_plan(self) -> bool {
        self == Self::PLAN
    }
}

impl fmt::Display for ShardNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plan() {
            f.write_str("plan")
        } else {
            self.0.fmt(f)
        }
    }
}

/// A shard: its run and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardKey {
    /// The run it is a part of.
    pub run: RunId,
    /// Its number in that run.
    pub no: ShardNo,
}

impl ShardKey {
    /// The shard `no` of `run`.
    #[must_use]
    pub fn new(run: RunId, no: i32) -> Self {
        Self {
            run,
            no: ShardNo(no),
        }
    }
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.no)
    }
}

/// What makes a run the one run of its occasion: unique together with the job uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// A planned instant; `rerun` is 0 for trigger, catch-up and only-missing backfill.
    Planned {
        /// The nominal instant.
        at: Timestamp,
        /// 0, or the number of an explicit rerun.
        rerun: u32,
    },
    /// A manual run, by its idempotency key.
    Manual {
        /// Given by the caller, 1 to 128 bytes.
        key: String,
    },
}

impl Occasion {
    /// The text that, with the job uid, is unique in a store: `p/<µs>/<rerun>` or `m/<key>`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Occasion::Planned { at, rerun } => format!("p/{}/{rerun}", at.as_microsecond()),
            Occasion::Manual { key } => format!("m/{key}"),
        }
    }

    /// The planned instant, if there is one.
    #[must_use]
    pub fn planned_at(&self) -> Option<Timestamp> {
        match self {
            Occasion::Planned { at, .. } => Some(*at),
            Occasion::Manual { .. } => None,
        }
    }

    /// Reads what [`Occasion::key`] wrote.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        if let Some(key) = key.strip_prefix("m/") {
            return Some(Occasion::Manual {
                key: key.to_owned(),
            });
        }
        let (at, rerun) = key.strip_prefix("p/")?.split_once('/')?;
        let at = Timestamp::from_microsecond(at.parse().ok()?).ok()?;
        Some(Occasion::Planned {
            at,
            rerun: rerun.parse().ok()?,
        })
    }
}

/// The key under which a shard's fence stands in the user's own database.
///
/// The same over every attempt, takeover and server: job uid, occasion, shard number. Never a
/// random id, so that a new attempt finds what the old one left.
#[must_use]
pub fn fence_key(job: JobUid, occasion: &Occasion, no: ShardNo) -> String {
    format!("{job}/{}/{no}", occasion.key())
}
