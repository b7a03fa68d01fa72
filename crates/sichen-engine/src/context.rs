//! What every duty of one node shares: the store, where operation ids come from, and its meter.
//!
//! # Not here
//! Time: duties are handed `now`, which their driver takes from the store.

use std::fmt;
use std::sync::Arc;

use sichen_core::ids::{OpId, ShardKey};
use sichen_core::keys::KeyHold;
use sichen_core::port::{Error, MAX_BATCH, Op, ShardFacts, Store};
use sichen_core::trace::Ratio;
use uuid::Uuid;

use crate::meter::Meter;

/// Where new ids come from: version 7 UUIDs in production, a counter in simulation.
pub trait IdSource: Send + Sync + 'static {
    /// A new id, never given before.
    fn uuid(&self) -> Uuid;
}

/// Time-ordered random ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the engine draws ids"
    )]
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// The store, the id source and the meter.
#[derive(Clone)]
pub struct Context {
    /// The only truth.
    pub store: Arc<dyn Store>,
    /// Where ids come from.
    pub ids: Arc<dyn IdSource>,
    /// What this node counts of its own work.
    pub meter: Arc<Meter>,
    /// Which share of the runs is traced, as far as their processes are told.
    pub traced: Ratio,
    /// The idempotency key under which its operations write, if they belong to one request.
    pub hold: Option<KeyHold>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

/// Facts of shards, however many: as many calls as the port's batches take.
///
/// # Errors
/// As the store.
pub(crate) async fn facts(
    store: &dyn Store,
    keys: Vec<ShardKey>,
) -> Result<Vec<ShardFacts>, Error> {
    let mut facts = Vec::with_capacity(keys.len());
    for keys in keys.chunks(MAX_BATCH) {
        facts.extend(store.get_shards(keys.to_vec()).await?);
    }
    Ok(facts)
}

impl Context {
    /// A context with a meter of its own.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, ids: Arc<dyn IdSource>) -> Self {
        let meter = Arc::default();
        Self {
            store,
            ids,
            meter,
            traced: Ratio::ALL,
            hold: None,
        }
    }

    /// A new operation by `actor`.
    #[must_use]
    pub fn op(&self, actor: impl Into<String>) -> Op {
        Op {
            id: OpId(self.ids.uuid()),
            actor: actor.into(),
            hold: self.hold.clone(),
        }
    }
}
