//! What nodes of one store tell each other beside it: signs of life and hints.
//!
//! # Invariants
//! - Nothing is decided by it that the store would not guard: a sign that is missed or false costs
//!   time, a hint that is lost is made good by the next look.
//!
//! # Not here
//! Leases and terms, by which alone a duty is owned ([`crate::port`]).

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::ids::NodeId;
use crate::name::Name;
use crate::port::Answer;

/// What a peer may want to look at now and not at its next beat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hint {
    /// Who is there, and who owns what.
    Members,
    /// Schedules.
    Trigger,
    /// Backfills.
    Backfill,
    /// The shards that wait, of all pools.
    Dispatch,
    /// The shards that wait in one pool.
    Pool(Name),
}

impl Hint {
    /// As [`Hint::parse`] reads it: one word.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Hint::Members => "members".to_owned(),
            Hint::Trigger => "trigger".to_owned(),
            Hint::Backfill => "backfill".to_owned(),
            Hint::Dispatch => "dispatch".to_owned(),
            Hint::Pool(pool) => format!("pool/{pool}"),
        }
    }

    /// Reads what [`Hint::text`] wrote; `None` for what this build does not know.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "members" => Some(Hint::Members),
            "trigger" => Some(Hint::Trigger),
            "backfill" => Some(Hint::Backfill),
            "dispatch" => Some(Hint::Dispatch),
            _ => Name::new(word.strip_prefix("pool/")?).ok().map(Hint::Pool),
        }
    }
}

/// What comes from beside the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A peer says so.
    Hint(Hint),
    /// The connection is gone: the own sign is out, and what was said meanwhile is unknown.
    Lost,
}

/// What a node shows of itself: as much of its number as a sign has room for. Two nodes of the same sign are
/// 2^32 numbers apart, and a dead one would pass for the other until its lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSign(pub u32);

impl NodeSign {
    /// The sign of `node`: the lower bits of its number.
    #[must_use]
    pub fn of(node: NodeId) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
        let low = node.0 as u32;
        Self(low)
    }
}

/// A node's way to be seen by its peers, to see them, and to tell them.
pub trait Beacon: Send + Sync + fmt::Debug + 'static {
    /// Shows that `node` lives, and no other node that was shown before. Never waits.
    fn show(&self, node: Option<NodeId>);
    /// The signs of the nodes that show themselves now; `None` if that can't be told.
    fn look(&self) -> Answer<'_, Option<BTreeSet<NodeSign>>>;
    /// Tells all peers. Never waits.
    fn tell(&self, hint: Hint);
    /// The next thing that is heard.
    fn hear(&self) -> Pin<Box<dyn Future<Output = Heard> + Send + '_>>;
}

/// For a store that has no such way: peers are seen by their leases alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBeacon;

impl Beacon for NoBeacon {
    fn show(&self, _: Option<NodeId>) {}

    fn look(&self) -> Answer<'_, Option<BTreeSet<NodeSign>>> {
        Box::pin(async { Ok(None) })
    }

    fn tell(&self, _: Hint) {}

    fn hear(&self) -> Pin<Box<dyn Future<Output = Heard> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

#[cfg(test)]
mod tests;
