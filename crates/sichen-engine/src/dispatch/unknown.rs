//! What a new attempt is told of earlier ones.
//!
//! # Not here
//! What a handler makes of it.

use std::collections::BTreeMap;

use sichen_core::event::Kind;
use sichen_core::ids::Token;
use sichen_core::lifecycle::AttemptEnd;
use sichen_core::port::{Error, EventFilter, Granted, MAX_PAGE, Page, Store};

/// Pages of a shard's own events that are read for a new attempt after a lost one: a checkpoint a
/// second for two days.
const EVENT_PAGES: u32 = 200;

/// Attempts of this shard that ended lost or timed out: nobody knows how far they came.
pub(super) async fn unknown_outcomes(
    store: &dyn Store,
    granted: &Granted,
) -> Result<Vec<(u32, Token)>, Error> {
    if granted.shard.attempt <= 1 {
        return Ok(Vec::new());
    }
    let filter = EventFilter {
        run: None,
        shard: Some(granted.shard.key),
    };
    let mut token_of = BTreeMap::new();
    let mut unknown = Vec::new();
    let lost = [AttemptEnd::Lost.word(), AttemptEnd::TimedOut.word()];
    let mut after = None;
    for _ in 0..EVENT_PAGES {
        let limit = MAX_PAGE;
        let page = store.list_events(filter, Page { after, limit }).await?;
        let full = page.len() == limit as usize;
        after = page.last().map(|event| event.seq);
        for event in page {
            let Some(attempt) = event.attempt else {
                continue;
            };
            if event.kind == Kind::AttemptGranted {
                token_of.insert(attempt, event.token.unwrap_or_default());
            }
            if event.kind == Kind::AttemptEnded && lost.contains(&event.cause.as_str()) {
                unknown.push((attempt, token_of.get(&attempt).copied().unwrap_or_default()));
            }
        }
        if !full {
            break;
        }
    }
    let excess = unknown.len().saturating_sub(16);
    Ok(unknown.split_off(excess))
}
