//! Ranges of keys: the shards of a run cut its range one after another (I23).
//!
//! Rows of shards come in the order of their keys; where one is left out nothing is said of its neighbours.
//!
//! # Not here
//! Whether there are as many rows as were written ([`super::lost`]).

use sichen_core::event::Entity;
use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::model::Shard;

use super::Checker;
use crate::fold::Broken;
use crate::verdict::Invariant;

/// The last row with a range, and where that ends.
#[derive(Debug, Default)]
pub(super) struct Ranges(Option<(ShardKey, i64)>);

impl Ranges {
    fn follow(&mut self, shard: &Shard) -> Option<String> {
        let Descriptor::Range { from, to } = shard.descriptor else {
            return None;
        };
        let before = self.0.replace((shard.key, to));
        if to < from {
            return Some(format!("its range runs backwards, from {from} to {to}"));
        }
        let (key, end) = before?;
        let neighbours = key.run == shard.key.run && key.no.0 + 1 == shard.key.no.0;
        (neighbours && end != from)
            .then(|| format!("its range begins at {from}, that of shard {key} ends at {end}"))
    }
}

impl Checker {
    /// Judges a row against the one before it.
    pub(super) fn range_row(&mut self, shard: &Shard) {
        if let Some(wrong) = self.ranges.follow(shard) {
            let broken = Broken(Invariant::I23, wrong);
            self.report(Entity::Shard(shard.key), broken, Vec::new());
        }
    }
}
