//! Logging in by a provider: a browser is sent there, and comes back.
//!
//! # Invariants
//! - A browser goes to the provider as it is configured, and afterwards to the console's own page: no address
//!   comes from a request.
//! - Whatever becomes of it, what the browser kept meanwhile is taken away.
//!
//! # Not here
//! What is believed of whom ([`crate::oidc`]), users ([`crate::access`]).

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Extension, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::Failed;
use super::request::Params;
use super::{Api, cookie, wire};
use crate::access::Denied;
use crate::oidc::{Brought, Oidc};
use crate::server::Remote;

/// Where there is no provider, none can be asked.
const NONE: &str = "/#refused=SC6039";

/// What a browser brings back from the provider; the provider may say more, which is passed over.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Back {
    /// The number with which it was sent.
    state: Option<String>,
    /// Good for a token, once.
    code: Option<String>,
    /// Who answers, as he names himself.
    iss: Option<String>,
    /// Why there is no code.
    error: Option<String>,
}

/// Sends a browser to the provider, to come back to `/login/oidc/callback`.
#[utoipa::path(
    get,
    path = "/login/oidc",
    tag = "users",
    security(()),
    responses(
        (status = 303, description = "To the provider; or, where it can't be asked, to the console's page, with the \
          code of the error behind `#refused=`"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn sign_on(State(api): State<Api>) -> Response {
    let Some(oidc) = api.0.oidc.as_deref() else {
        return to(NONE, []);
    };
    match oidc.begin().await {
        Ok(sent) => {
            let keep = cookie::keep(Some(&sent.kept), oidc.is_private());
            to(&sent.to, [keep])
        }
        Err(error) => {
            tracing::warn!(%error, "nobody can log in by the provider");
            refused(&error.to_string(), oidc)
        }
    }
}

/// Logs in who comes back from the provider, and sends his browser to the console's page: with a cookie, or with
/// the code of the error behind `#refused=`.
#[utoipa::path(
    get,
    path = "/login/oidc/callback",
    tag = "users",
    security(()),
    params(Back),
    responses(
        (status = 303, description = "To the console's page, logged in or not"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn signed_on(
    State(api): State<Api>,
    remote: Option<Extension<Remote>>,
    headers: HeaderMap,
    Params(back): Params<Back>,
) -> Response {
    let Some(oidc) = api.0.oidc.as_deref() else {
        return to(NONE, []);
    };
    let remote = remote.map(|Extension(remote)| remote);
    let from = remote.as_ref().map(|remote| remote.address);
    let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let is_private = remote.is_some_and(|remote| remote.is_private);
    let brought = Brought {
        state: back.state,
        code: back.code,
        issuer: back.iss,
        error: back.error,
    };
    let kept = cookie::kept(&headers, oidc.is_private());
    let old = cookie::of(&headers, is_private);
    let access = &api.0.access;
    let control = &api.0.control;
    let done = access.sign_on(
        control,
        oidc,
        brought,
        kept.as_deref(),
        from,
        old.as_deref(),
    );
    match done.await {
        Ok(done) => {
            let set = cookie::set(Some(&done.cookie), is_private);
            to("/#in", [set, cookie::keep(None, oidc.is_private())])
        }
        Err(Denied::Store(error)) => {
            let mut response = Failed::from(error).into_response();
            taken_away(&mut response, oidc);
            response
        }
        Err(denied) => refused(&denied.told(), oidc),
    }
}

/// To the console's page, which tells what the code of `message` means.
fn refused(message: &str, oidc: &Oidc) -> Response {
    let code = message.split(':').next().unwrap_or_default();
    let place = format!("/#refused={code}");
    to(&place, [cookie::keep(None, oidc.is_private())])
}

fn taken_away(response: &mut Response, oidc: &Oidc) {
    let set = cookie::keep(None, oidc.is_private());
    append(response, &[set]);
}

fn to<const N: usize>(place: &str, cookies: [String; N]) -> Response {
    // An address that no header takes leads nowhere else.
    let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/"));
    let head = [
        (LOCATION, place),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // The address has a code.
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    let mut response = (StatusCode::SEE_OTHER, head).into_response();
    append(&mut response, &cookies);
    response
}

fn append(response: &mut Response, cookies: &[String]) {
    for set in cookies {
        if let Ok(set) = HeaderValue::try_from(set) {
            response.headers_mut().append(SET_COOKIE, set);
        }
    }
}
