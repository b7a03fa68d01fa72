//! What attempts wrote, read from the workers that keep it.
//!
//! # Not here
//! Asking a worker ([`crate::grpc`]).

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use sichen_core::ids::{SessionId, ShardKey};
use sichen_core::port;
use sichen_engine::control::Attempt;
use sichen_engine::sessions::is_live;
use sichen_proto::v1::OutputFound;
use utoipa::IntoParams;

use super::answer::Failed;
use super::request::{self, Params, Segments};
use super::{Api, wire};
use crate::grpc::{NoAnswer, Question};

/// The most bytes of one answer.
pub(super) const MAX_CHUNK_BYTES: u32 = 64 * 1024;

/// Which part of an output is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// `stdout` (if left out) or `stderr`.
    stream: Option<String>,
    /// In bytes, from the beginning of what the attempt wrote; 0 if left out.
    offset: Option<u64>,
    /// At most so many bytes, up to 65,536 (if left out); 0 asks only where the stream ends.
    limit: Option<u32>,
}

/// What an attempt's process wrote: a chunk of bytes, as they came. The headers say where it stands:
/// `Sichen-Offset` (its first byte), `Sichen-Skipped` (bytes before it that were not kept),
/// `Sichen-Next` (where to read on), `Sichen-End` (where the stream ends at present), `Sichen-Ended`
/// (`true` once nothing is added any more), `Sichen-Worker`.
#[utoipa::path(
    get,
    path = "/runs/{id}/shards/{no}/attempts/{attempt}/output",
    tag = "runs",
    params(
        ("id" = String, Path, description = "Number, key, or trace id"),
        ("no" = i32, Path, description = "The shard's number; -1 is the plan step"),
        ("attempt" = u32, Path, description = "The attempt's number, from 1"),
        Wanted,
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn output(
    State(api): State<Api>,
    Segments((id, no, number)): Segments<(String, i32, u32)>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Failed> {
    let stderr = match wanted.stream.as_deref() {
        None | Some("stdout") => false,
        Some("stderr") => true,
        Some(other) => {
            let other = request::shortened(other);
            let text = format!("SC5021: stream={other:?} is neither stdout nor stderr");
            return Err(Failed::bad(text));
        }
    };
    let limit = wanted.limit.unwrap_or(MAX_CHUNK_BYTES);
    if limit > MAX_CHUNK_BYTES {
        let text = format!("SC5021: limit={limit} is more than {MAX_CHUNK_BYTES} bytes");
        return Err(Failed::bad(text));
    }
    let shard = ShardKey::new(request::run_id(&api, &id).await?, no);
    let attempts = api.0.control.attempts(shard).await?;
    let attempt = attempts.iter().find(|a| a.number == number);
    let attempt = attempt
        .ok_or_else(|| Failed::not_found("attempt", format!("{number} of shard {shard}")))?;
    let question = Question {
        shard,
        attempt: number,
        stderr,
        offset: wanted.offset.unwrap_or(0),
        limit,
    };
    let session = holder(&api, attempt).await?;
    let session = session.ok_or_else(|| gone(attempt, "is not connected"))?;
    let answer = api.0.streams.read_output(session, question).await;
    let found = answer.map_err(|why| match why {
        NoAnswer::NotConnected => gone(attempt, "is not connected to this server"),
        NoAnswer::Silent => gone(attempt, "is connected and does not answer"),
        NoAnswer::Busy => {
            let text = format!(
                "SC5032: worker {} is asked too much; ask again",
                attempt.worker
            );
            Failed::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    })?;
    match found.found() {
        OutputFound::Here => {}
        OutputFound::Unreadable => {
            let text = format!(
                "SC5033: worker {} can't read the output of attempt {number}: {}",
                attempt.worker, found.detail
            );
            return Err(Failed::new(StatusCode::NOT_FOUND, text));
        }
        OutputFound::NotKept | OutputFound::Busy | OutputFound::Unspecified => {
            let text = format!(
                "SC5031: worker {} keeps no output of attempt {number}: it ran no process, or room \
                 was made for later attempts",
                attempt.worker
            );
            return Err(Failed::new(StatusCode::NOT_FOUND, text));
        }
    }
    let next = found.offset.saturating_add(found.data.len() as u64);
    let headers = [
        ("sichen-offset", found.offset.to_string()),
        ("sichen-skipped", found.skipped.to_string()),
        ("sichen-next", next.to_string()),
        ("sichen-end", found.end.to_string()),
        ("sichen-ended", found.ended.to_string()),
        ("sichen-worker", attempt.worker.clone()),
    ];
    let kind = [(CONTENT_TYPE, "application/octet-stream")];
    Ok((headers, kind, Body::from(found.data)).into_response())
}

/// The session to ask: the one that held the attempt, or a later one of the same data directory.
async fn holder(api: &Api, attempt: &Attempt) -> Result<Option<SessionId>, port::Error> {
    let Some(id) = attempt.session.map(SessionId) else {
        return Ok(None);
    };
    let Some(held) = api.store().get_session(id).await? else {
        return Ok(None);
    };
    let now = api.store().now().await?;
    if is_live(&held, now) {
        return Ok(Some(id));
    }
    let sessions = api.store().list_sessions(Some(held.pool)).await?;
    let same = sessions
        .into_iter()
        .map(|(session, _)| session)
        .filter(|s| s.worker.uid == held.worker.uid && is_live(s, now));
    Ok(same.map(|s| s.id).max())
}

fn gone(attempt: &Attempt, how: &str) -> Failed {
    let text = format!(
        "SC5030: worker {}, which keeps the output of attempt {}, {how}",
        attempt.worker, attempt.number
    );
    Failed::new(StatusCode::CONFLICT, text)
}
