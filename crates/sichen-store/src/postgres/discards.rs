//! Dead letters struck off the list.
//!
//! # Not here
//! Which shards may be (core), bringing them back ([`super::runs`]).

use serde_json::json;
use sichen_core::event::Kind;
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::lifecycle::{RunState, may_discard};
use sichen_core::port::{Discard, RequestVerdict};

use super::row::{at, int};
use super::runs::heads;
use super::sql;
use super::tx::{Happened, Result, Tx};

pub(super) async fn discard(
    tx: &mut Tx,
    id: RunId,
    only: Option<Vec<ShardKey>>,
    why: &Discard,
) -> Result<RequestVerdict> {
    let Some(run) = tx.run_row(id).await? else {
        return Ok(RequestVerdict::Missing);
    };
    if tx.repeated {
        return Ok(RequestVerdict::Already);
    }
    if !matches!(run.state, RunState::Failed | RunState::Partial) {
        return Ok(RequestVerdict::NotNow(run.state));
    }
    let only = only.map(|keys| keys.into_iter().collect::<std::collections::BTreeSet<_>>());
    let mut letters = heads(tx, sql::LIST_FAILED_SHARDS, id, [int(id.0)]).await?;
    letters.retain(|head| {
        let wanted = only.as_ref().is_none_or(|only| only.contains(&head.key));
        wanted && may_discard(head.state, head.discarded)
    });
    if letters.is_empty() {
        return Ok(RequestVerdict::NotNow(run.state));
    }
    let now = at(tx.now);
    tx.shards_changed(id);
    for head in &letters {
        let params = (int(id.0), head.key.no.0, head.ver, now);
        tx.must(sql::DISCARD_SHARD, params).await?;
        let state = head.state.word();
        let happened = Happened {
            data: json!({ "by": why.by, "reason": why.reason }),
            ..Happened::new(Kind::ShardDiscarded, state, state)
        };
        head.event(tx, happened)?;
    }
    Ok(RequestVerdict::Done(None))
}
