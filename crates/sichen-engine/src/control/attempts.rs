//! The attempts of a shard, folded from its events.
//!
//! # Not here
//! Judging them (`sichen-check`).

use jiff::Timestamp;
use serde_json::Value;
use sichen_core::event::{Event, Kind};
use sichen_core::ids::{ShardKey, Token};
use sichen_core::port::{EventFilter, MAX_PAGE, Page};

use super::{Control, Error};

/// The most events of one shard that are read; older attempts are then left out.
pub const MAX_EVENTS: usize = 20_000;

/// One try of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// The token it holds or held.
    pub token: Token,
    /// The session that got it.
    pub session: Option<u64>,
    /// The worker's name.
    pub worker: String,
    /// The number of the checkpoint it started from; 0 for none.
    pub from_checkpoint: u64,
    /// Its newest checkpoint that was stored, and how many items were done then.
    pub checkpoint: Option<(u64, u64)>,
    /// Reports of it that were refused.
    pub refused: u32,
    /// When it was granted.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// `succeeded`, `failed`, `timed_out`, `lost`, `cancelled` or `released`; empty while it runs.
    pub end: String,
    /// Why it did not succeed.
    pub code: String,
    /// For people.
    pub message: String,
    /// What it returned, as JSON; empty if nothing, or if it was too long to be kept.
    pub result: String,
    /// How many bytes it returned, if they were too many to be kept.
    pub result_bytes: Option<u64>,
}

impl Control {
    /// The attempts of a shard, oldest first.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn attempts(&self, shard: ShardKey) -> Result<Vec<Attempt>, Error> {
        let store = &*self.context.store;
        if store.get_shards(vec![shard]).await?.is_empty() {
            return Err(Error::NotFound {
                what: "shard",
                name: shard.to_string(),
            });
        }
        let filter = EventFilter {
            run: None,
            shard: Some(shard),
        };
        let (mut events, mut after) = (Vec::new(), None);
        while events.len() < MAX_EVENTS {
            let limit = MAX_PAGE;
            let page = store.list_events(filter, Page { after, limit }).await?;
            let full = page.len() == limit as usize;
            after = page.last().map(|e| e.seq);
            events.extend(page);
            if !full {
                break;
            }
        }
        Ok(fold(&events))
    }
}

/// Folds the events of one shard.
#[must_use]
pub fn fold(events: &[Event]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for event in events {
        if event.kind == Kind::ReportRefused {
            // It may name no attempt: the token tells whose report it was.
            let token = event.token.unwrap_or_default();
            if let Some(whose) = attempts.iter_mut().find(|a| a.token == token) {
                whose.refused += 1;
            }
            continue;
        }
        let Some(number) = event.attempt else {
            continue;
        };
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let count = |name: &str| data[name].as_u64().unwrap_or(0);
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        let at = attempts.iter().rposition(|a| a.number == number);
        match (event.kind, at) {
            (Kind::AttemptGranted, _) => attempts.push(Attempt {
                number,
                token: event.token.unwrap_or_default(),
                session: data["session"].as_u64(),
                worker: text("worker"),
                from_checkpoint: count("checkpoint_seq"),
                started_at: Some(event.at),
                ..Attempt::default()
            }),
            (Kind::CheckpointSaved, Some(i)) => {
                attempts[i].checkpoint = Some((count("seq"), count("done")));
            }
            (Kind::AttemptEnded, Some(i)) => {
                attempts[i].ended_at = Some(event.at);
                attempts[i].end = text("end");
                attempts[i].code = text("code");
                attempts[i].message = text("message");
                attempts[i].result = text("result");
                attempts[i].result_bytes = data["result_bytes"].as_u64();
            }
            _ => {}
        }
    }
    attempts
}
