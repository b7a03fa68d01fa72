//! The event log as it grows: server-sent events for those who show what is.
//!
//! # Invariants
//! - For display: each event that the node finds is sent to all who watch it, in the order in which
//!   they are found ([`tail`]). One that is committed late may come after one with a higher number;
//!   it may also come twice, or never, to who was away meanwhile, and is never sent where more events
//!   come than are kept in mind. Who comes again rereads what it shows.
//! - Watchers share one look at the log; there are at most [`MAX_WATCHERS`],
//!   of one token at most [`MAX_WATCHERS_OF_TOKEN`].
//! - A watcher is sent what its token may see, and is let go when that is over.
//! - It ends when the node stops: a stop waits for no watcher.
//!
//! # Not here
//! The log in pages, from its beginning ([`super::history`]): what must not miss anything reads that.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use sichen_core::port;
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::Failed;
use super::request::{self, Params};
use super::{Api, wire};

mod room;
mod tail;

pub(super) use room::Room;
pub(super) use tail::Tail;
use tail::{LOOK_EACH, News};

/// Watchers that one node serves at once; more are asked to come again.
pub const MAX_WATCHERS: usize = 64;
/// Of them with one token that can be taken back; others are asked to come again.
pub const MAX_WATCHERS_OF_TOKEN: usize = 16;
/// Pages of older events that a watcher is sent at once.
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
/// The first one, `begin`, has no event but the number from which it goes on. For display: it may miss
/// one or send it twice; what must not miss an event reads `/events`.
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
    caller: Caller,
    Params(from): Params<From>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let room = api
        .0
        .watching
        .place(caller.is_row().then_some(&caller.actor));
    let room = room.map_err(|why| {
        let message = format!("SC5034: {why}; come again later");
        Failed::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let known = headers.get("last-event-id").map(|id| id.to_str());
    let known = match known {
        Some(Ok(id)) => Some(id.to_owned()),
        Some(Err(_)) => return Err(Failed::bad("SC5021: Last-Event-ID is no number")),
        None => from.after,
    };
    let (after, place) = if let Some(text) = known {
        let after = number(&text)?;
        (after, Place::Behind(after))
    } else {
        let end = api.0.tail.end(api.store()).await?;
        (end.last(), Place::With(end.place()))
    };
    let begin = Sent::default().event("begin").id(after.to_string());
    let begin = begin.data(format!(r#"{{"after":{after}}}"#));
    let watcher = Watcher {
        api,
        caller,
        place,
        sending: VecDeque::from([begin]),
        _room: room,
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
    caller: Caller,
    place: Place,
    sending: VecDeque<Sent>,
    _room: room::Place,
}

/// How far a watcher is.
enum Place {
    /// It knows the log up to this number, which is before the end that all share.
    Behind(u64),
    /// It goes with the others, from this place on.
    With(u64),
}

impl Watcher {
    /// What is sent next; nothing more once the node stops, the store fails, or what this watcher has
    /// not had yet is no longer kept.
    async fn next(&mut self) -> Option<Sent> {
        let api = self.api.clone();
        loop {
            if let Some(sent) = self.sending.pop_front() {
                return Some(sent);
            }
            let look = async {
                tokio::time::sleep(LOOK_EACH).await;
                self.look().await
            };
            let fresh = tokio::select! {
                () = api.0.streams.closing() => return None,
                fresh = look => fresh,
            };
            if !api.0.access.still(&self.caller).await {
                tracing::debug!("a watcher whose token is over is let go");
                return None;
            }
            let fresh = match fresh {
                Ok(Some(fresh)) => self.seen(fresh).await.map(Some),
                other => other,
            };
            match fresh {
                Ok(Some(fresh)) => self.sending.extend(fresh.iter().map(sent)),
                // The watcher comes again with the number it has.
                Ok(None) => {
                    tracing::debug!("a watcher that reads too slowly is let go");
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "a watcher is let go");
                    return None;
                }
            }
        }
    }

    /// Those that the watcher may see.
    async fn seen(&self, fresh: Vec<News>) -> Result<Vec<News>, port::Error> {
        let mut seen = Vec::with_capacity(fresh.len());
        for news in fresh {
            if self.caller.sees_event(&self.api, &news.entity).await? {
                seen.push(news);
            }
        }
        Ok(seen)
    }

    /// What it has not had yet; nothing if some of that is no longer kept.
    async fn look(&mut self) -> Result<Option<Vec<News>>, port::Error> {
        let store = self.api.store();
        let mut older = Vec::new();
        for _ in 0..MAX_PAGES {
            let end = self.api.0.tail.end(store).await?;
            let after = match self.place {
                Place::Behind(after) => after,
                Place::With(place) => {
                    self.place = Place::With(end.place());
                    return Ok(end.from(place));
                }
            };
            if let Some(fresh) = end.after(after) {
                self.place = Place::With(end.place());
                older.extend(fresh);
                break;
            }
            // What is settled is read from the log; the end knows the rest.
            let settled = end.settled;
            drop(end);
            let mut page = tail::read(store, after, 1).await?;
            let last = page.last().map_or(settled, |event| event.seq);
            self.place = Place::Behind(last.min(settled));
            page.retain(|event| event.seq <= settled);
            older.extend(page.iter().filter_map(News::of));
        }
        Ok(Some(older))
    }
}

fn sent(news: &News) -> Sent {
    Sent::default().id(news.seq.to_string()).data(&news.data)
}

#[cfg(test)]
mod tests;
