//! The event log as it grows: server-sent events for those who show what is.
//!
//! # Invariants
//! - Every event that is committed within [`SETTLED_AFTER`] looks of one with a higher number is sent,
//!   once, though it comes out of order: numbers are given before the commit.
//! - A watcher costs one look at the log each [`LOOK_EACH`], whatever it does; there are at most
//!   [`MAX_WATCHERS`].
//! - It ends when the node stops: a stop waits for no watcher.
//!
//! # Not here
//! The log in pages, from its beginning ([`super::history`]): what must not miss anything reads that.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use sichen_core::event::Event;
use sichen_core::port::{self, EventFilter, MAX_PAGE, Page};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::answer::Failed;
use super::request::{self, Params};
use super::{Api, convert, wire};

/// Watchers that one node serves at once; more are asked to come again.
pub const MAX_WATCHERS: usize = 64;
/// How often a watcher's log is looked at.
const LOOK_EACH: Duration = Duration::from_millis(500);
/// Looks after which no event with a lower number is awaited any more: 5 seconds.
const SETTLED_AFTER: u64 = 10;
/// Events that are kept in mind while lower numbers may still come.
const MAX_UNSETTLED: usize = 2_000;
/// Pages of events that one look reads.
const MAX_PAGES: usize = 5;
/// How often a watcher hears something, if only a comment.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// From where on events are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// The number of the last event that is known; those from now on if left out. The header
    /// `Last-Event-ID`, which browsers send when they come again, goes before it.
    after: Option<String>,
}

/// Events as they are committed, as server-sent events: `id` is the event's number, `data` the event.
/// The first one, `begin`, has no event but the number from which it goes on. For display: what must
/// not miss an event reads `/events`.
#[utoipa::path(
    get,
    path = "/watch",
    tag = "history",
    params(From),
    responses(
        (status = 200, body = wire::Event, content_type = "text/event-stream"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn watch(
    State(api): State<Api>,
    Params(from): Params<From>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let Ok(place) = api.0.watching.clone().try_acquire_owned() else {
        let message = format!("SC5034: {MAX_WATCHERS} watch this node already; come again later");
        return Err(Failed::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    let known = headers.get("last-event-id").map(|id| id.to_str());
    let known = match known {
        Some(Ok(id)) => Some(id.to_owned()),
        Some(Err(_)) => return Err(Failed::bad("SC5021: Last-Event-ID is no number")),
        None => from.after,
    };
    let after = match known {
        Some(text) => number(&text)?,
        None => api.store().get_last_event().await?,
    };
    let begin = Sent::default().event("begin").id(after.to_string());
    let begin = begin.data(format!(r#"{{"after":{after}}}"#));
    let watcher = Watcher {
        api,
        log: Log::new(after),
        sending: VecDeque::from([begin]),
        _place: place,
    };
    let sent = stream::unfold(watcher, async |mut watcher| {
        let next = watcher.next().await?;
        Some((Ok::<_, Infallible>(next), watcher))
    });
    let alive = KeepAlive::new().interval(SIGN_OF_LIFE);
    let headers = [("cache-control", "no-store"), ("x-accel-buffering", "no")];
    Ok((headers, Sse::new(sent).keep_alive(alive)).into_response())
}

fn number(text: &str) -> Result<u64, Failed> {
    let known = text.parse().ok().filter(|n| i64::try_from(*n).is_ok());
    known.ok_or_else(|| {
        let text = request::shortened(text);
        Failed::bad(format!("SC5021: after={text:?} is no number of an event"))
    })
}

struct Watcher {
    api: Api,
    log: Log,
    sending: VecDeque<Sent>,
    _place: OwnedSemaphorePermit,
}

impl Watcher {
    /// What is sent next; nothing more once the node stops or the store fails.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.sending.pop_front() {
                return Some(sent);
            }
            tokio::select! {
                () = self.api.0.streams.closing() => return None,
                () = tokio::time::sleep(LOOK_EACH) => {}
            }
            match self.look().await {
                Ok(fresh) => self.sending.extend(fresh.iter().filter_map(sent)),
                // The watcher comes again with the number it has.
                Err(error) => {
                    tracing::debug!(%error, "a watcher is let go");
                    return None;
                }
            }
        }
    }

    async fn look(&mut self) -> Result<Vec<Event>, port::Error> {
        let mut fresh = Vec::new();
        let mut after = self.log.settled;
        for _ in 0..MAX_PAGES {
            let page = Page {
                after: Some(after),
                limit: MAX_PAGE,
            };
            let events = self.api.store().list_events(EventFilter::default(), page);
            let events = events.await?;
            let Some(last) = events.last().map(|event| event.seq) else {
                break;
            };
            let full = events.len() == MAX_PAGE as usize;
            fresh.extend(
                events
                    .into_iter()
                    .filter(|event| self.log.is_new(event.seq)),
            );
            after = last;
            if !full {
                break;
            }
        }
        self.log.settle();
        Ok(fresh)
    }
}

fn sent(event: &Event) -> Option<Sent> {
    let data = serde_json::to_string(&convert::event(event)).ok()?;
    Some(Sent::default().id(event.seq.to_string()).data(data))
}

/// Which events a watcher has had.
#[derive(Debug)]
struct Log {
    /// Up to this number all have been, or will never come.
    settled: u64,
    /// Those after it that have been, with the look that found them.
    seen: BTreeMap<u64, u64>,
    looks: u64,
}

impl Log {
    fn new(after: u64) -> Self {
        Self {
            settled: after,
            seen: BTreeMap::new(),
            looks: 0,
        }
    }

    fn is_new(&mut self, seq: u64) -> bool {
        match self.seen.entry(seq) {
            Entry::Vacant(place) => {
                place.insert(self.looks);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Ends a look: what was seen long ago is settled, and so is what there is no more room for.
    fn settle(&mut self) {
        self.looks += 1;
        while let Some(first) = self.seen.first_entry() {
            let old = *first.get() + SETTLED_AFTER <= self.looks;
            if !old && self.seen.len() <= MAX_UNSETTLED {
                break;
            }
            if let Some((seq, _)) = self.seen.pop_first() {
                self.settled = seq;
            }
        }
    }
}

#[cfg(test)]
mod tests;
