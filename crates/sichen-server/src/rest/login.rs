//! Logging in with a browser, and out.
//!
//! # Invariants
//! - All that fails for what was typed is answered in the same words.
//! - A login gives a new cookie, whatever the browser showed, and ends the login that it had.
//!
//! # Not here
//! Judging passwords ([`crate::access`]), what a cookie looks like ([`super::cookie`]).

use std::net::{IpAddr, Ipv4Addr};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::access::Caller;
use super::answer::Failed;
use super::{Api, cookie, request, tokens, wire};
use crate::access::{Denied, seconds};
use crate::server::Remote;

type With<T> = ([(HeaderName, HeaderValue); 2], Json<T>);

/// The ways in which somebody can log in here.
#[utoipa::path(
    get,
    path = "/login",
    tag = "users",
    security(()),
    responses(
        (status = 200, body = wire::Logins),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn log_in_ways(State(api): State<Api>) -> Json<wire::Logins> {
    let provider = api.0.oidc.as_ref();
    Json(wire::Logins {
        provider: provider.map(|oidc| oidc.name().to_owned()),
    })
}

/// Logs a user in, with his password. The answer gives the browser a cookie, by which its further requests are
/// his; those that change something want the header `Sichen-Console` too. Programs send a token instead.
#[utoipa::path(
    post,
    path = "/login",
    tag = "users",
    security(()),
    request_body = wire::LogIn,
    responses(
        (status = 200, body = wire::Me, description = "Who he is now"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn log_in(
    State(api): State<Api>,
    remote: Option<Extension<Remote>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked: wire::LogIn = match request::json(&body) {
        Ok(asked) => asked,
        Err(failed) => return failed.into_response(),
    };
    let remote = remote.map(|Extension(remote)| remote);
    let from = remote.as_ref().map(|remote| remote.address);
    let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let is_private = remote.is_some_and(|remote| remote.is_private);
    let old = cookie::of(&headers, is_private);
    let access = &api.0.access;
    let done = access.log_in(
        &api.0.control,
        &asked.user,
        asked.password,
        from,
        old.as_deref(),
    );
    match done.await {
        Ok(done) => {
            let set = cookie::set(Some(&done.cookie), is_private);
            answered(set, tokens::told(&done.caller)).into_response()
        }
        Err(denied) => refused(denied),
    }
}

fn refused(denied: Denied) -> Response {
    match denied {
        Denied::Wait(wait) => {
            let failed = Failed::new(StatusCode::TOO_MANY_REQUESTS, denied.told());
            let mut response = failed.into_response();
            let after = HeaderValue::from(seconds(wait));
            response.headers_mut().insert(RETRY_AFTER, after);
            response
        }
        Denied::Unjudged(error) => unjudged(error).into_response(),
        Denied::Store(error) => Failed::from(error).into_response(),
        other => Failed::new(StatusCode::UNAUTHORIZED, other.told()).into_response(),
    }
}

/// The answer to a password that was not looked at.
pub(super) fn unjudged(error: crate::password::Error) -> Failed {
    let status = match error {
        crate::password::Error::Busy => StatusCode::SERVICE_UNAVAILABLE,
        crate::password::Error::Broken => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Failed::new(status, error.to_string())
}

/// Ends the login by which the request is made, and takes the browser's cookie away. With a token it does
/// nothing else.
#[utoipa::path(
    post,
    path = "/logout",
    tag = "users",
    responses(
        (status = 200, body = wire::Me, description = "Who it was"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn log_out(
    State(api): State<Api>,
    remote: Option<Extension<Remote>>,
    caller: Caller,
) -> Result<With<wire::Me>, Failed> {
    api.0.access.log_out(&api.0.control, &caller).await?;
    let is_private = remote.is_some_and(|Extension(remote)| remote.is_private);
    Ok(answered(
        cookie::set(None, is_private),
        tokens::told(&caller),
    ))
}

fn answered<T>(set: String, body: T) -> With<T> {
    // Made of what a header takes: hexadecimal digits and fixed words.
    let set = HeaderValue::try_from(set).unwrap_or(HeaderValue::from_static(""));
    let kept = HeaderValue::from_static("no-store");
    ([(SET_COOKIE, set), (CACHE_CONTROL, kept)], Json(body))
}
