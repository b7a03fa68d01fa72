//! Why one shard is where it is.
//!
//! # Not here
//! What keeps a ready shard waiting: the same as its run (`super::reasons`).

use sichen_core::lifecycle::ShardState;
use sichen_core::model::Shard;

use super::{Facts, Why, holder, reasons as reasons_of_run};

/// The chain of reasons of a shard of the run that `facts` are about; never empty.
pub(super) fn reasons(shard: &Shard, facts: &Facts) -> Vec<Why> {
    let failure = shard.failure.as_ref();
    let failed = failure.map_or(String::new(), |f| format!(" ({}: {})", f.code, f.message));
    let (word, text) = match shard.state {
        ShardState::Succeeded => (
            "closed",
            format!("it has succeeded in attempt {}", shard.attempt),
        ),
        ShardState::Failed => (
            "closed",
            format!(
                "it has failed for good after {} attempts{failed}",
                shard.attempt
            ),
        ),
        ShardState::Cancelled => ("closed", "it was cancelled".to_owned()),
        ShardState::Running => {
            let holder = shard.session.map(|session| holder(facts, session));
            let holder = holder.unwrap_or_else(|| "nobody".to_owned());
            (
                "running",
                format!(
                    "attempt {} runs on {holder} under token {}",
                    shard.attempt, shard.token
                ),
            )
        }
        ShardState::Scheduled | ShardState::Retry => {
            let mut chain = reasons_of_run(facts);
            // That others of the run are running keeps this one waiting only by a limit, which is named.
            chain.retain(|why| why.word != "running");
            if let (Some(why), false) = (chain.first_mut(), failed.is_empty()) {
                why.text = format!("{}; attempt {} failed{failed}", why.text, shard.attempt);
            }
            return chain;
        }
    };
    let (since, ends) = match shard.state {
        ShardState::Running => (shard.started_at, "the end of the attempt".to_owned()),
        _ => (shard.ended_at, String::new()),
    };
    vec![Why {
        word,
        text,
        shards: u32::from(shard.state == ShardState::Running),
        since,
        ends,
    }]
}
