//! Namespaces: what they may have of the pools, listed and set.
//!
//! # Not here
//! What follows from it (`sichen_core::dispatch::fair`, the stores).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use sichen_core::beacon::Hint;
use sichen_core::model::{self, NamespaceChange};
use sichen_core::name::Name;

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, wire};

fn shown(namespace: &model::Namespace, has: model::NamespaceUse) -> wire::Namespace {
    wire::Namespace {
        name: namespace.name.to_string(),
        version: namespace.ver,
        weight: namespace.weight,
        max_running: namespace.max_running,
        running: has.running,
        max_queued: namespace.max_queued,
        queued: has.queued,
    }
}

fn name(text: &str) -> Result<Name, Failed> {
    Name::new(text).map_err(|error| Failed::bad(error.to_string()))
}

/// A limit as it is to be: taken away, set, or left.
fn limit(away: bool, most: Option<u32>, names: [&str; 2]) -> Result<Option<Option<u32>>, Failed> {
    match (away, most) {
        (true, Some(_)) => Err(Failed::bad(format!(
            "SC5021: {} and {}: give one of the two",
            names[0], names[1]
        ))),
        (true, None) => Ok(Some(None)),
        (false, most) => Ok(most.map(Some)),
    }
}

/// Namespaces of which something was set, by name. All others have the weight 100 and no limit.
#[utoipa::path(
    get,
    path = "/namespaces",
    tag = "namespaces",
    params(Paging),
    responses(
        (status = 200, body = wire::NamespacePage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    Params(paging): Params<Paging>,
) -> Answer<wire::NamespacePage> {
    let page = paging.page(|text| Name::new(text).ok())?;
    let limit = page.limit;
    let found = api.0.control.namespaces(page).await?;
    let next = request::next(&found, limit, |(namespace, _)| namespace.name.to_string());
    let items = found.iter().map(|(n, has)| shown(n, *has));
    Ok(Json(wire::NamespacePage {
        items: items.collect(),
        next,
    }))
}

/// What one namespace may have, set or not.
#[utoipa::path(
    get,
    path = "/namespaces/{name}",
    tag = "namespaces",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = wire::Namespace),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Segments(text): Segments<String>,
) -> Answer<wire::Namespace> {
    let (namespace, has) = api.0.control.namespace(&name(&text)?).await?;
    Ok(Json(shown(&namespace, has)))
}

/// Sets what a namespace may have. A limit below what runs ends nothing: nothing more is started until
/// less runs. One below what is queued takes nothing away: no more runs are written until fewer wait.
#[utoipa::path(
    post,
    path = "/namespaces/{name}",
    tag = "namespaces",
    params(("name" = String, Path)),
    request_body = wire::SetNamespace,
    responses(
        (status = 200, body = wire::Namespace),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn set(
    State(api): State<Api>,
    caller: Caller,
    Segments(text): Segments<String>,
    body: Bytes,
) -> Answer<wire::Namespace> {
    let name = name(&text)?;
    let body: wire::SetNamespace = request::json(&body)?;
    let change = NamespaceChange {
        weight: body.weight,
        max_running: limit(
            body.unlimited,
            body.max_running,
            ["max_running", "unlimited"],
        )?,
        max_queued: limit(
            body.unlimited_queue,
            body.max_queued,
            ["max_queued", "unlimited_queue"],
        )?,
    };
    if let Some(control) = caller.step(&api, 0) {
        control.set_namespace(&caller.actor, &name, change).await?;
    }
    api.0.engine.asked(Hint::Dispatch);
    let (namespace, has) = api.0.control.namespace(&name).await?;
    Ok(Json(shown(&namespace, has)))
}
