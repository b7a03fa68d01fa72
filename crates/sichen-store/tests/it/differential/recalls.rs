//! Shards of the streams that are asked to give their slots up: those that run, and others.

use futures::executor::block_on;
use sichen_core::dispatch::preempt::Recall;
use sichen_core::ids::{RunId, Token};
use sichen_core::lifecycle::ShardState;
use sichen_core::model::{Dump, DutyKey};
use sichen_core::port::LeaseStore;

use super::{Pair, both};

impl Pair {
    pub(super) fn recall(&mut self, dump: &Dump) {
        let runs = |state| state == ShardState::Running;
        let mut recalls = Vec::new();
        for shard in &dump.shards {
            let wanted = if runs(shard.state) { 2 } else { 9 };
            if recalls.len() == 6 || !self.dice.once_in(wanted) {
                continue;
            }
            recalls.push(Recall {
                key: shard.key,
                token: Token(shard.token.0 + self.dice.roll(9) as u64 / 8),
                by: self.dice.pick(&dump.runs).map_or(RunId(77), |run| run.id),
                priority: 5,
                own: self.dice.roll(5) as i32,
                most: 3,
            });
        }
        let mut of: Vec<RunId> = recalls.iter().map(|recall| recall.key.run).collect();
        of.dedup();
        let DutyKey::Pool(pool) = self.pool() else {
            return;
        };
        let fence = self.fence(&DutyKey::Pool(pool));
        let op = self.op();
        both!(self, recall_shards(op, fence, recalls)).expect("recorded");
        if self.dice.once_in(4) {
            both!(self, recall_shards(op, fence, recalls)).expect("recorded");
        }
        both!(self, list_recalls(of)).expect("listed");
        let by = self.any_run(dump);
        both!(self, list_recalls_for(by, 3)).expect("listed");
    }
}
