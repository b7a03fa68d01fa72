//! Dead letters struck off the list.
//!
//! # Not here
//! Which shards may be (core), bringing them back ([`super::runs`]).

use serde_json::json;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::lifecycle::{RunState, may_discard};
use sichen_core::port::{Discard, RequestVerdict};

use super::Tx;
use super::state::Happened;

pub(super) fn discard(
    tx: &mut Tx<'_>,
    id: RunId,
    only: Option<&[ShardKey]>,
    why: &Discard,
) -> RequestVerdict {
    let Some(run) = tx.state.runs.get(&id) else {
        return RequestVerdict::Missing;
    };
    let from = run.state;
    if !matches!(from, RunState::Failed | RunState::Partial) {
        return RequestVerdict::NotNow(from);
    }
    let keys: Vec<ShardKey> = tx
        .state
        .shards_of(id)
        .map(|row| &row.shard)
        .filter(|shard| may_discard(shard.state, shard.discarded_at.is_some()))
        .map(|shard| shard.key)
        .filter(|key| only.is_none_or(|only| only.contains(key)))
        .collect();
    if keys.is_empty() {
        return RequestVerdict::NotNow(from);
    }
    let now = tx.now;
    for key in keys {
        let Some(row) = tx.state.shards.get_mut(&key) else {
            continue;
        };
        let shard = &mut row.shard;
        shard.discarded_at = Some(now);
        shard.ver += 1;
        let (ver, state, token) = (shard.ver, shard.state.word(), shard.token);
        let happened = Happened {
            token: Some(token),
            data: json!({ "by": why.by, "reason": why.reason }),
            ..Happened::new(Kind::ShardDiscarded, state, state)
        };
        tx.event(Entity::Shard(key), ver, happened);
    }
    RequestVerdict::Done(None)
}
