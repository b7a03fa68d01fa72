//! The event log: paged, and as an export.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sichen_core::port::EventFilter;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use utoipa::IntoParams;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{Paging, Params};
use super::{Api, convert, export, wire};

/// How long a client may take until it has room for more of an export.
const READS_WITHIN: Duration = Duration::from_secs(30);
/// Chunks of an export that wait to be read.
const CHUNKS_AHEAD: usize = 4;

/// All events, oldest first; for a caller who does not see all namespaces those of the jobs, runs,
/// backfills and calendars that he sees. A page may then be short, even empty, and still have a `next`.
#[utoipa::path(
    get,
    path = "/events",
    tag = "history",
    params(Paging),
    responses(
        (status = 200, body = wire::EventPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn events(
    State(api): State<Api>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<wire::EventPage> {
    page(&api, &caller, EventFilter::default(), &paging).await
}

/// A page of the events that pass `filter`.
pub(super) async fn page(
    api: &Api,
    caller: &Caller,
    filter: EventFilter,
    paging: &Paging,
) -> Answer<wire::EventPage> {
    let page = paging.page(|text| text.parse().ok())?;
    let events = api.store().list_events(filter, page).await?;
    let last = events.last().map(|event| event.seq).or(page.after);
    let next = last.map(|seq| seq.to_string());
    let mut items = Vec::with_capacity(events.len());
    for event in &events {
        if caller.sees_event(api, &event.entity).await? {
            items.push(convert::event(event));
        }
    }
    Ok(Json(wire::EventPage { items, next }))
}

/// What an export holds.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Parts {
    /// Whether the rows follow the events; true if left out.
    rows: Option<bool>,
}

/// A line about the export itself, the event log as JSON lines, then all rows: what the history
/// checker reads.
///
/// Events and rows are of one moment. One export at a time: it holds the whole store in memory.
#[utoipa::path(
    get,
    path = "/export",
    tag = "history",
    params(Parts),
    responses(
        (status = 200, body = String, content_type = "application/x-ndjson"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn export(
    State(api): State<Api>,
    Params(parts): Params<Parts>,
) -> Result<Response, Failed> {
    let Ok(only) = api.0.exporting.clone().try_acquire_owned() else {
        let message = "SC5028: another export is under way; come again later";
        return Err(Failed::new(StatusCode::SERVICE_UNAVAILABLE, message));
    };
    let dump = api.store().dump().await?;
    let store = &api.0.about.store;
    let lines = export::lines(dump, store, parts.rows.unwrap_or(true));
    let body = body(lines, only, READS_WITHIN);
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Sends `lines` for as long as they are read, and keeps them and the room for an export no longer: all
/// of them are in memory, since no paging over a store in use could keep to one moment. What
/// is not sent whole ends with an error, so that nobody takes a part for the whole.
fn body(mut lines: export::Lines, only: OwnedSemaphorePermit, within: Duration) -> Body {
    let (sent, chunks) = mpsc::channel(CHUNKS_AHEAD);
    // Ends with the body: whoever hangs up takes it along.
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        let _only = only;
        while let Some(chunk) = export::chunk(&mut lines) {
            match sent.send_timeout(chunk, within).await {
                Ok(()) => {}
                Err(SendTimeoutError::Closed(_)) => return false,
                Err(SendTimeoutError::Timeout(_)) => {
                    tracing::warn!(
                        ?within,
                        "SC5028: an export was given up, since its client reads nothing"
                    );
                    return false;
                }
            }
        }
        true
    });
    let chunks =
        futures::stream::unfold((chunks, sending), |(mut chunks, mut sending)| async move {
            if let Some(chunk) = chunks.recv().await {
                return Some((Ok(chunk), (chunks, sending)));
            }
            match sending.join_next().await {
                None | Some(Ok(true)) => None,
                Some(Ok(false) | Err(_)) => {
                    let error = std::io::Error::other("the export was not read in time");
                    Some((Err(error), (chunks, sending)))
                }
            }
        });
    Body::from_stream(chunks)
}

#[cfg(test)]
mod tests;
