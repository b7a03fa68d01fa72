//! Tokens: made, listed, taken back; and who asks.
//!
//! # Invariants
//! - A secret is in one answer, that of the request that made it; neither the store nor a log has it.
//! - Nobody gives or takes back a right that he could not use himself.
//!
//! # Not here
//! Judging them ([`crate::access`]).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, StatusCode};
use jiff::Timestamp;
use sichen_core::access::{AccessToken, Bounds, Grants, NewAccessToken, Purpose, Role};
use sichen_core::name::Name;
use sichen_engine::control;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Segments};
use super::{Api, wire};
use crate::access::new_secret;

/// Who asks, and what he may do: for clients that show what can be done.
#[utoipa::path(
    get,
    path = "/me",
    tag = "tokens",
    responses(
        (status = 200, body = wire::Me),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn me(caller: Caller) -> Json<wire::Me> {
    Json(told(&caller))
}

/// What a caller is told of himself.
pub(super) fn told(caller: &Caller) -> wire::Me {
    wire::Me {
        actor: caller.actor.to_string(),
        roles: roles(&caller.grants),
        expires_at: caller.expires_at.map(|at| at.to_string()),
    }
}

pub(super) fn roles(grants: &Grants) -> Vec<wire::RoleIn> {
    let roles = grants.iter().map(|(namespace, role)| wire::RoleIn {
        namespace: namespace.to_owned(),
        role: role.word().to_owned(),
    });
    roles.collect()
}

/// A token without its secret.
pub(super) fn shown(token: &AccessToken, now: Timestamp) -> wire::Token {
    let asked = &token.asked;
    let (given, join) = match &asked.purpose {
        Purpose::Api(grants) => (roles(grants), None),
        Purpose::Join(bounds) => (Vec::new(), Some(bounds)),
    };
    let state = match (token.revoked_at, token.is_live(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "live",
        (None, false) => "expired",
    };
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    wire::Token {
        name: asked.name.to_string(),
        kind: asked.purpose.word().to_owned(),
        roles: given,
        pool: join.map(|bounds| bounds.pool.to_string()),
        handlers: join.map_or_else(Vec::new, |bounds| bounds.handlers.clone()),
        workers: join.map_or_else(Vec::new, |bounds| bounds.workers.clone()),
        state: state.to_owned(),
        created_at: token.created_at.to_string(),
        created_by: token.created_by.clone(),
        expires_at: text(asked.expires_at),
        revoked_at: text(token.revoked_at),
        used_at: text(token.used_at),
    }
}

/// Tokens by name, those that are over too: those whose rights the caller may give.
#[utoipa::path(
    get,
    path = "/tokens",
    tag = "tokens",
    responses(
        (status = 200, body = wire::Tokens),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Answer<wire::Tokens> {
    let now = api.store().now().await?;
    let tokens = api.0.control.tokens().await?;
    let given = tokens
        .iter()
        .filter(|t| caller.administers(&t.asked.purpose));
    let items = given.map(|token| shown(token, now)).collect();
    Ok(Json(wire::Tokens { items }))
}

/// Makes a token. Its secret is in this answer alone.
#[utoipa::path(
    post,
    path = "/tokens",
    tag = "tokens",
    request_body = wire::NewToken,
    responses(
        (status = 201, body = wire::MadeToken, description = "It was made now"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    body: Bytes,
) -> Result<
    (
        StatusCode,
        [(HeaderName, &'static str); 1],
        Json<wire::MadeToken>,
    ),
    Failed,
> {
    let body: wire::NewToken = request::json(&body)?;
    let name = name(&body.name)?;
    let purpose = purpose(&body)?;
    if !caller.administers(&purpose) {
        let message = format!(
            "SC6002: this token would have rights that {} can't give; that needs the role admin in \
             every namespace it names, and in all (`*`) for workers",
            caller.actor
        );
        return Err(Failed::new(StatusCode::FORBIDDEN, message));
    }
    let expires_at = body.expires_at.as_deref();
    let expires_at = expires_at.map(|text| request::instant("expires_at", text));
    let (secret, digest) = match caller.keyed_secret() {
        Some(secret) => secret,
        None => new_secret().map_err(|error| {
            let message = format!("SC9001: the system has no random numbers: {error}");
            Failed::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?,
    };
    let new = NewAccessToken {
        name,
        purpose,
        digest,
        expires_at: expires_at.transpose()?.map(whole),
    };
    let made = match caller.step(&api, 0) {
        Some(control) => control.create_token(&caller.actor, new).await,
        None => same_token(&api, new).await,
    };
    api.0.access.forget();
    let made = made?;
    let made = wire::MadeToken {
        token: shown(&made, made.created_at),
        secret,
    };
    let unkept = [(CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, unkept, Json(made)))
}

/// The token that an earlier attempt of the request made.
async fn same_token(api: &Api, new: NewAccessToken) -> Result<AccessToken, control::Error> {
    let found = api.0.control.token(&new.name).await?;
    if found.asked.digest == new.digest {
        return Ok(found);
    }
    Err(control::Error::Refused(format!(
        "SC6005: the token {} of this request was made, and its name was given to another since",
        new.name
    )))
}

/// Takes a token back: it opens nothing any more, here at once, on other nodes within 2 seconds.
#[utoipa::path(
    delete,
    path = "/tokens/{token}",
    tag = "tokens",
    params(("token" = String, Path, description = "Its name")),
    responses(
        (status = 200, body = wire::Token),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
) -> Answer<wire::Token> {
    let name = name(&text)?;
    let found = api.0.control.token(&name).await?;
    if !caller.administers(&found.asked.purpose) {
        return Err(Failed::not_found("token", name.to_string()));
    }
    let revoked = api.0.control.revoke_token(&caller.actor, &name).await;
    api.0.access.forget();
    let now = api.store().now().await?;
    Ok(Json(shown(&revoked?, now)))
}

pub(super) fn name(text: &str) -> Result<Name, Failed> {
    Name::new(text).map_err(|error| {
        let text = request::shortened(text);
        Failed::bad(format!("SC1001: the name {text:?} {error}"))
    })
}

fn purpose(body: &wire::NewToken) -> Result<Purpose, Failed> {
    let bad = |error: sichen_core::access::Error| {
        Failed::bad(format!("SC6007: no such token can be made: {error}"))
    };
    match &body.pool {
        Some(_) if !body.roles.is_empty() => Err(Failed::bad(
            "SC6007: no such token can be made: it asks the API (`roles`) or lets workers join \
             (`pool`), not both",
        )),
        Some(pool) => {
            let bounds = Bounds::new(self::name(pool)?, body.handlers.clone());
            let bounds = bounds.and_then(|bounds| bounds.of_workers(body.workers.clone()));
            Ok(Purpose::Join(bounds.map_err(bad)?))
        }
        None if !body.handlers.is_empty() || !body.workers.is_empty() => Err(Failed::bad(
            "SC6007: no such token can be made: `handlers` and `workers` belong to `pool`",
        )),
        None => {
            let role = |given: &wire::RoleIn| {
                let role = Role::parse(&given.role);
                role.ok_or_else(|| sichen_core::access::Error::Role(given.role.clone()))
            };
            let given: Result<Vec<_>, _> = body
                .roles
                .iter()
                .map(|given| Ok((given.namespace.as_str(), role(given)?)))
                .collect();
            let grants = given.and_then(Grants::new);
            Ok(Purpose::Api(grants.map_err(bad)?))
        }
    }
}

/// As stores keep it.
fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
