//! What every request of the API goes through: token, size, room, time, and what becomes of a panic.
//!
//! # Invariants
//! - Without a token, or a login, that may do it nothing of a request is read but its head; of a login, which
//!   needs none, [`MAX_OPEN_BODY_BYTES`] are.
//! - What goes by a cookie changes nothing unless a page of the server itself asked for it.
//! - A use case that has begun is never dropped half way: it runs to its end in a task of its own,
//!   though its client may have been told that it takes too long, or may be gone.
//! - A panic is the answer 500 to one request, and nothing more.
//!
//! # Not here
//! Connections and their limits ([`crate::Server`]).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::answer::Failed;
use super::keyed::Claimed;
use super::{Api, access, cookie, keyed};
use crate::access::{Access, Caller, Refusal};
use crate::tls::Peer;

/// The largest body of a request, in bytes.
pub const MAX_BODY_BYTES: usize = 1 << 20;
/// The largest body of a request that asks for no token, in bytes.
pub const MAX_OPEN_BODY_BYTES: usize = 4_096;
/// Requests that are carried out at once; more are asked to come again.
pub const MAX_REQUESTS: usize = 1_024;
/// How long a client waits for its answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Lets a request through to its handler.
pub(super) async fn pass(State(api): State<Api>, request: Request, next: Next) -> Response {
    let timeout = api.0.timeout;
    let method = request.method().clone();
    match tokio::time::timeout(timeout, carried_out(api, request, next)).await {
        Ok(response) => {
            sichen_crash::at(sichen_crash::Place::BeforeAnswer, method.as_str());
            response
        }
        Err(_) => {
            let message = format!(
                "SC5024: the request took more than {} seconds; it may still be carried out",
                timeout.as_secs_f32()
            );
            Failed::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
    }
}

fn bearer(headers: &HeaderMap) -> &str {
    let header = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let (scheme, token) = header.and_then(|h| h.split_once(' ')).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") {
        token.trim()
    } else {
        ""
    }
}

/// The access token for which the client's certificate stands: where none is sent, and no browser asks,
/// which would show it for another site's page as well.
fn certified(parts: &Parts) -> Option<&str> {
    let headers = &parts.headers;
    let told = [AUTHORIZATION.as_str(), "origin", "sec-fetch-site", "cookie"];
    if told.iter().any(|name| headers.contains_key(*name)) {
        return None;
    }
    parts.extensions.get::<Arc<Peer>>()?.token()
}

/// Why who asks is not believed.
fn unbelieved(refusal: Refusal) -> Failed {
    match refusal {
        Refusal::Unknown => Failed::new(
            StatusCode::UNAUTHORIZED,
            "SC6001: the token is missing or wrong; send `Authorization: Bearer …` with a token that \
             an administrator made (`sichen token create`), or with the text of the file `token` in \
             the server's data directory",
        ),
        Refusal::Over(what) => Failed::new(
            StatusCode::UNAUTHORIZED,
            format!("SC6003: the token {what}; ask an administrator for another"),
        ),
        Refusal::Away(why) => Failed::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("SC6004: the token can't be judged now, come again later: {why}"),
        ),
    }
}

/// Who asks, and the secret by which he is known.
async fn asking(api: &Api, parts: &Parts, is_open: bool) -> Result<(Caller, String), Failed> {
    let access = &api.0.access;
    if is_open {
        // Somebody who comes back from a provider comes from another site; he changes nothing by asking.
        if !parts.method.is_safe() {
            cookie::from_own_page(parts)?;
        }
        return Ok((Access::nobody(), String::new()));
    }
    if let Some(cookie) = cookie::shown(parts) {
        let caller = access.visitor(&cookie).await.map_err(unknown_login)?;
        if !parts.method.is_safe() {
            cookie::from_own_page(parts)?;
            cookie::has_own_header(parts)?;
        }
        return Ok((caller, cookie));
    }
    let bearer = bearer(&parts.headers).to_owned();
    let believed = match certified(parts) {
        Some(name) => access.named_caller(name).await,
        None => access.caller(&bearer).await,
    };
    Ok((believed.map_err(unbelieved)?, bearer))
}

/// Why a cookie is not believed: it may have been good once, which nothing is kept of.
fn unknown_login(refusal: Refusal) -> Failed {
    match refusal {
        Refusal::Unknown => Failed::new(
            StatusCode::UNAUTHORIZED,
            "SC6038: this login is over, or never was; log in again",
        ),
        other => unbelieved(other),
    }
}

/// Room for one request among those that are carried out at once.
fn room(api: &Api) -> Result<OwnedSemaphorePermit, Failed> {
    api.0.room.clone().try_acquire_owned().map_err(|_| {
        let message =
            format!("SC5025: {MAX_REQUESTS} requests are being carried out; come again later");
        Failed::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })
}

async fn carried_out(api: Api, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let is_open = access::is_open(&api, &parts);
    let (mut caller, secret) = match asking(&api, &parts, is_open).await {
        Ok(asking) => asking,
        Err(failed) => return failed.into_response(),
    };
    // Judging may read rows; a slow body, which comes after it, keeps no room from others.
    let judged = match room(&api) {
        Ok(_room) => access::judge(&api, &caller, &mut parts).await,
        Err(full) => Err(full),
    };
    if let Err(refused) = judged {
        return refused.into_response();
    }
    let coding = parts.headers.get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| coding != "identity") {
        let message = "SC5035: the body has a `Content-Encoding`; send it as it is";
        return Failed::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response();
    }
    let most = match is_open {
        true => MAX_OPEN_BODY_BYTES,
        false => MAX_BODY_BYTES,
    };
    let Ok(body) = axum::body::to_bytes(body, most).await else {
        let message = format!(
            "SC5023: the body has more than {most} bytes, or did not come whole; send \
             fewer documents at a time"
        );
        return Failed::new(StatusCode::PAYLOAD_TOO_LARGE, message).into_response();
    };
    let room = match room(&api) {
        Ok(room) => room,
        Err(full) => return full.into_response(),
    };
    let keyed = match keyed::claim(&api, &caller, &parts, &body, &secret).await {
        Ok(Claimed::Free) => None,
        Ok(Claimed::Yours(keyed)) => Some(keyed),
        Ok(Claimed::Answered(response)) => return response,
        Err(failed) => return failed.into_response(),
    };
    caller.keyed.clone_from(&keyed);
    parts.extensions.insert(caller);
    let what = format!("{} {}", parts.method, parts.uri.path());
    let handled = next.run(Request::from_parts(parts, Body::from(body)));
    let keeping = api.clone();
    let running = api.0.running.spawn(
        async move {
            let mut response = handled.await;
            if let Some(keyed) = keyed {
                response = keyed::keep(&keeping, &keyed, response).await;
            }
            drop(room);
            response
        }
        .in_current_span(),
    );
    match running.await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(request = what, %error, "SC9001: a request's handler broke");
            let message = "SC9001: a fault of the server broke this request; its log says more. \
                           Please report it";
            Failed::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
