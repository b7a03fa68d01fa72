//! Who asked shards of a run for their slots and for whom, and whom the run itself asked.
//!
//! # Not here
//! Who is asked ([`sichen_core::dispatch::preempt`]).

use sichen_core::dispatch::preempt::{MAX_RECALLS, Recalled};
use sichen_core::ids::ShardNo;
use sichen_core::lifecycle::ShardState;
use sichen_core::model::Run;
use sichen_core::port::{self, Store};

use super::Why;

/// Shards that an explanation names.
const NAMED: usize = 3;

/// A reason for each of the last shards of an open run that were asked, or for those of one of them.
///
/// # Errors
/// The store's.
pub(super) async fn reasons(
    store: &dyn Store,
    run: &Run,
    shard: Option<ShardNo>,
) -> Result<Vec<Why>, port::Error> {
    if run.state.is_closed() {
        return Ok(Vec::new());
    }
    let mut recalls = store.list_recalls(vec![run.id]).await?;
    recalls.retain(|recalled| shard.is_none_or(|no| recalled.key.no == no));
    recalls.sort_by_key(|recalled| std::cmp::Reverse((recalled.at, recalled.key)));
    let mut reasons: Vec<Why> = recalls.iter().take(NAMED).map(reason).collect();
    reasons.extend(asking(store, run).await?);
    Ok(reasons)
}

/// Shards that were asked to give their slots to the run, and have not yet.
async fn asking(store: &dyn Store, run: &Run) -> Result<Option<Why>, port::Error> {
    let most = u32::try_from(MAX_RECALLS).unwrap_or(u32::MAX);
    let asked = store.list_recalls_for(run.id, most).await?;
    let keys = asked.iter().map(|recalled| recalled.key).collect();
    let found = store.get_shards(keys).await?;
    let runs = |recalled: &&Recalled| {
        found.iter().any(|f| {
            let shard = &f.shard;
            (shard.key, shard.token, shard.state)
                == (recalled.key, recalled.token, ShardState::Running)
        })
    };
    let still: Vec<&Recalled> = asked.iter().filter(runs).collect();
    let Some(since) = still.iter().map(|recalled| recalled.at).min() else {
        return Ok(None);
    };
    let named = still.iter().take(NAMED);
    let named: Vec<String> = named.map(|recalled| recalled.key.to_string()).collect();
    let more = match still.len() - named.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Ok(Some(Why {
        word: "preempting",
        text: format!(
            "asked to give it their slots: shard {}{more}",
            named.join(", ")
        ),
        shards: 0,
        since: Some(since),
        ends: "they save how far they have come, or their grace ends".to_owned(),
    }))
}

fn reason(recalled: &Recalled) -> Why {
    let (no, by, priority) = (recalled.key.no, recalled.by, recalled.priority);
    Why {
        word: "preempted",
        text: format!("shard {no} was asked to give its slot to run {by} of priority {priority}"),
        shards: 0,
        since: Some(recalled.at),
        ends: String::new(),
    }
}
