//! Why a run that has ended failed: the first of its shards that did, and what their last attempts said.
//!
//! # Not here
//! All of them (`GET /dead-letters`: `sichen-server`).

use sichen_core::lifecycle::ShardState;
use sichen_core::model::{Run, Shard};
use sichen_core::port::{self, MAX_PAGE, Page, Store};

use super::Why;

/// Failed shards that an explanation names.
const NAMED: usize = 3;

/// A reason for each of the first failed shards among the run's first [`MAX_PAGE`].
///
/// # Errors
/// The store's.
pub(super) async fn reasons(store: &dyn Store, run: &Run) -> Result<Vec<Why>, port::Error> {
    if !run.state.is_closed() || run.counters.failed == 0 {
        return Ok(Vec::new());
    }
    let page = Page {
        after: None,
        limit: MAX_PAGE,
    };
    let shards = store.list_shards(run.id, page).await?;
    let failed = shards.iter().filter(|s| s.state == ShardState::Failed);
    Ok(failed.take(NAMED).map(reason).collect())
}

fn reason(shard: &Shard) -> Why {
    let why = match &shard.failure {
        Some(failure) => format!("{}: {}", failure.code, failure.message),
        None => "its last attempt was lost".to_owned(),
    };
    Why {
        word: "failed",
        text: format!("shard {} failed: {why}", shard.key.no),
        shards: 1,
        since: None,
        ends: String::new(),
    }
}
