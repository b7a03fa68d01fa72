//! Which worker gets a shard: what a job asks for, what workers offer, and who is chosen.
//!
//! A job may say where its shards run: by labels, by resources, and by the strategy that chooses among
//! those who can take one. A job that says nothing goes to the worker with the least load.
//!
//! # Invariants
//! - Pure: the same candidates, uses and terms give the same choice.
//! - A shard goes to no worker that its terms rule out, whatever else is free.
//! - What only speaks for or against a worker (preferred and avoided labels, failures of the job there)
//!   orders those who can take a shard, and keeps nobody from running it.
//! - What a worker's shards ask for together is never above what it offers, as far as its owner knows
//!   what it holds; of a worker of which it does not, nothing is given away that asks for resources.
//!
//! # Not here
//! Whose turn it is ([`crate::dispatch::fair`]); slots and every other limit, which the store checks
//! again.

pub mod blame;
mod offer;
mod seats;
mod terms;
mod uses;

use crate::ids::SessionId;

pub use offer::{MAX_LABELS, MAX_RESOURCES, Offer, Resources, quantity};
pub(crate) use seats::Seats;
pub use terms::{
    BROADCAST_TO, Key, Keyed, MAX_BROADCAST, Strategy, Terms, Wanted, broadcast_to, hash_of,
};
pub use uses::Places;

/// A session that can take shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub session: SessionId,
    /// A number of its worker's name ([`hash_of`]): the same for each of its sessions.
    pub worker: u64,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// Its slots.
    pub slots: u32,
    /// Shards it holds.
    pub held: u32,
    /// Its labels and resources.
    pub offer: std::sync::Arc<Offer>,
    /// How busy its machine is: its load by its processors, in thousandths. 0 if it does not say.
    pub busy: u32,
}

impl Candidate {
    /// Whether it may ever run such a shard, free or not.
    #[must_use]
    pub fn suits(&self, handler: &str, terms: Option<&Terms>) -> bool {
        self.offer.suits(&self.handlers, handler, terms)
    }
}

#[cfg(test)]
#[path = "place/tests.rs"]
mod tests;
