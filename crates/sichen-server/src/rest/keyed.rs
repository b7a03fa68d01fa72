//! Requests with an idempotency key: done once, and answered alike when they come again.
//!
//! # Invariants
//! - What a request changes is written while its attempt holds the key, or is found again by a name of its
//!   own (a run's key or planned instant, a document's name): so a repeat after a death does not do it twice.
//! - Only success is kept. What was refused may be asked again, when it has become possible; where it is
//!   not known what was done (5xx), the next attempt goes on where this one ended.
//! - A secret is in no kept answer: it is made anew from the caller's own token.
//!
//! # Not here
//! Which attempt may go on (`sichen_core::keys`).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::MatchedPath;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use sichen_core::keys::{
    ClaimKey, KeptAnswer, KeyHold, KeyVerdict, MAX_KEPT_ANSWER_BYTES, MAX_KEY_BYTES,
    MAX_KEYS_OF_AUTHOR,
};
use sichen_engine::control::Control;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};

use super::access::Caller;
use super::answer::Failed;
use super::{Api, request};
use crate::access::derived_secret;

/// What only asks, whatever its method: it is the same however often it comes.
const ASKS: &[&str] = &[
    "/jobs:validate",
    "/jobs:import",
    "/calendars:compare",
    "/jobs/{namespace}/{name}/backfills/preview",
];
/// What takes no key, because a digest of what it is sent would be one of a password; what it does is the
/// same however often it comes.
const UNKEYED: &[&str] = &["/login", "/logout", "/users/{user}/password"];
/// What finds the thing it made by that thing's own key, as long as it is there.
const OWN: &[&str] = &[
    "/jobs/{namespace}/{name}/runs",
    "/jobs/{namespace}/{name}/runs:batch",
    "/jobs/{namespace}/{name}/backfills",
];
/// What answers with a secret.
const SECRET: &str = "/tokens";
/// How long a repeat waits for the answer of an attempt that is being carried out.
const WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// Where the API stands.
const ROOT: &str = "/api/v1";

/// A request whose key this attempt holds.
#[derive(Debug)]
pub(crate) struct Keyed {
    hold: KeyHold,
    done: Option<u32>,
    /// What the request makes, if that is a secret, with its digest.
    secret: Option<(String, String)>,
}

/// What becomes of a request.
pub(super) enum Claimed {
    /// It has no key, or needs none.
    Free,
    /// It is carried out under its key.
    Yours(Arc<Keyed>),
    /// It was answered before.
    Answered(Response),
}

impl Caller {
    /// The use cases for a step of the request, numbered from 0 in the order in which they are taken;
    /// `None` if an earlier attempt did it: then what there is by now is the answer.
    pub(super) fn step(&self, api: &Api, step: u32) -> Option<Control> {
        let Some(keyed) = &self.keyed else {
            return Some(api.0.control.clone());
        };
        if keyed.done.is_some_and(|done| done >= step) {
            return None;
        }
        let hold = KeyHold {
            step,
            ..keyed.hold.clone()
        };
        Some(api.0.control.under(hold))
    }

    /// The secret that the request makes, with its digest, if its key decides it.
    pub(super) fn keyed_secret(&self) -> Option<(String, String)> {
        self.keyed.as_ref()?.secret.clone()
    }
}

/// Takes the key of a request, if it has one.
pub(super) async fn claim(
    api: &Api,
    caller: &Caller,
    parts: &Parts,
    body: &Bytes,
    bearer: &str,
) -> Result<Claimed, Failed> {
    let path = parts.extensions.get::<MatchedPath>();
    let path = path.and_then(|path| path.as_str().strip_prefix(ROOT));
    let Some(path) = path.filter(|path| {
        parts.method == Method::POST && !ASKS.contains(path) && !UNKEYED.contains(path)
    }) else {
        return Ok(Claimed::Free);
    };
    let Some(key) = key(parts)? else {
        return Ok(Claimed::Free);
    };
    if path == SECRET && bearer.is_empty() {
        return Err(Failed::bad(
            "SC6026: with an `Idempotency-Key` the new secret is derived from the caller's token, and this \
             caller is known by a certificate; send it without the header",
        ));
    }
    let context = &api.0.engine.context;
    let claim = ClaimKey {
        // One caller's keys are nothing to another, who may not even learn that they are taken.
        key: digest([caller.actor.as_bytes(), key.as_bytes()]),
        author: caller.actor.to_string(),
        request: request_digest(parts, body),
        holder: context.ids.uuid(),
        node: api.0.engine.coordinator.node(),
        seed: context.ids.uuid(),
    };
    match verdict(api, &claim).await? {
        KeyVerdict::Yours { seed, done } => {
            let seed = seed.to_string();
            let secret = (path == SECRET).then(|| derived_secret(bearer, &[&seed, &key]));
            Ok(Claimed::Yours(Arc::new(Keyed {
                hold: KeyHold {
                    key: claim.key,
                    holder: claim.holder,
                    step: 0,
                },
                done,
                secret,
            })))
        }
        KeyVerdict::Answered(kept) => {
            context.meter.repeated();
            Ok(Claimed::Answered(again(kept)))
        }
        KeyVerdict::Full if OWN.contains(&path) => Ok(Claimed::Free),
        KeyVerdict::Full => {
            let message = format!(
                "SC5038: {} has sent {MAX_KEYS_OF_AUTHOR} requests with an `Idempotency-Key` of which \
                 the answers are still kept; come again later, or send it without one",
                caller.actor
            );
            Err(Failed::new(StatusCode::TOO_MANY_REQUESTS, message))
        }
        KeyVerdict::OtherRequest => Err(Failed::new(
            StatusCode::CONFLICT,
            "SC5036: this `Idempotency-Key` was sent with another request (another address, body or \
             condition); send each request with a key of its own, drawn at random",
        )),
        KeyVerdict::Held => Err(Failed::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "SC5037: the request with this `Idempotency-Key` is still being carried out; come again for \
             its answer",
        )),
    }
}

/// The key that a request has, if any.
fn key(parts: &Parts) -> Result<Option<String>, Failed> {
    let key = request::idempotency_key(None, Some(&parts.headers))?;
    match key.as_ref().map(String::len) {
        Some(n) if !(1..=MAX_KEY_BYTES).contains(&n) => Err(Failed::bad(format!(
            "SC5013: the header `Idempotency-Key` has {n} bytes; 1 to {MAX_KEY_BYTES} are allowed"
        ))),
        Some(_) | None => Ok(key),
    }
}

/// What becomes of an attempt, once the one before it has had a while to end.
async fn verdict(api: &Api, claim: &ClaimKey) -> Result<KeyVerdict, Failed> {
    let mut waited = Duration::ZERO;
    loop {
        let verdict = api.store().claim_key(claim.clone()).await?;
        if verdict != KeyVerdict::Held || waited >= WAIT {
            return Ok(verdict);
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}

/// Keeps the answer of a request for its repeats.
pub(super) async fn keep(api: &Api, keyed: &Keyed, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let status = parts.status;
    // Handlers answer with what they hold in memory.
    let bytes = axum::body::to_bytes(body, usize::MAX).await;
    let bytes = bytes.unwrap_or_default();
    let kept = status.is_success().then(|| {
        let kind = parts.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let open = bytes.len() <= MAX_KEPT_ANSWER_BYTES && keyed.secret.is_none();
        let text = open.then(|| String::from_utf8(bytes.to_vec()).ok());
        KeptAnswer {
            status: status.as_u16(),
            kind: kind.to_owned(),
            body: text.flatten(),
        }
    });
    let KeyHold { key, holder, .. } = keyed.hold.clone();
    if let Err(error) = api.store().answer_key(key, holder, kept).await {
        // A repeat finds how far it came, when this attempt has had its time.
        tracing::debug!(%error, "the answer of a request with a key is not kept");
    }
    Response::from_parts(parts, Body::from(bytes))
}

fn again(kept: KeptAnswer) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    let mut response = (status, kept.body.unwrap_or_default()).into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&kept.kind) {
        headers.insert(CONTENT_TYPE, kind);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("sichen-repeated", HeaderValue::from_static("true"));
    response
}

/// The digest of all that makes a request what it is, but for who sends it.
fn request_digest(parts: &Parts, body: &Bytes) -> String {
    let conditions = [IF_MATCH, IF_NONE_MATCH];
    let conditions = conditions.map(|name| {
        let values = parts.headers.get_all(name).iter();
        let values: Vec<&[u8]> = values.map(HeaderValue::as_bytes).collect();
        values.join(&b'\n')
    });
    digest([
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        parts.uri.query().unwrap_or_default().as_bytes(),
        &conditions[0],
        &conditions[1],
        body,
    ])
}

/// A digest from which no two lists of parts can be confused.
fn digest<const N: usize>(parts: [&[u8]; N]) -> String {
    let mut all = Sha256::new();
    for part in parts {
        all.update((part.len() as u64).to_be_bytes());
        all.update(part);
    }
    all.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Says of each POST whether it takes a key.
pub(super) fn describe(openapi: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut openapi.paths.paths {
        let Some(operation) = &mut item.post else {
            continue;
        };
        let short = path.strip_prefix(ROOT).unwrap_or(path);
        let told = match () {
            () if ASKS.contains(&short) => Some(
                "It only asks: it does nothing, and needs no `Idempotency-Key` (one is passed over).",
            ),
            () if UNKEYED.contains(&short) => {
                Some("It may be repeated, and needs no `Idempotency-Key` (one is passed over).")
            }
            () => None,
        };
        if let Some(told) = told {
            let before = operation.description.take();
            operation.description = Some(match before {
                Some(before) => format!("{before}\n\n{told}"),
                None => told.to_owned(),
            });
        } else {
            take_key(operation, OWN.contains(&short));
        }
    }
}

fn take_key(operation: &mut Operation, own: bool) {
    const NAME: &str = "Idempotency-Key";
    let mut told = format!(
        "1 to {MAX_KEY_BYTES} visible ASCII characters, drawn at random: the same request again is answered \
         as it was and done once, for at least 24 hours; the key with another request is refused (409)"
    );
    if own {
        told.push_str(". It is also the key of what is made, if the body gives none");
    }
    let length = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(MAX_KEY_BYTES));
    let parameter: Parameter = ParameterBuilder::new()
        .name(NAME)
        .parameter_in(ParameterIn::Header)
        .description(Some(told))
        .schema(Some(length))
        .build();
    let parameters = operation.parameters.get_or_insert_default();
    parameters.retain(|other| !matches!(other, RefOr::T(other) if other.name == NAME));
    parameters.push(RefOr::T(parameter));
}
