//! Capacities: applied, listed, shown with who holds and who waits, resized, deleted.
//!
//! # Not here
//! Reading documents ([`crate::document`]).

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use sichen_core::beacon::Hint;
use sichen_core::document::CapacityDocument;
use sichen_core::model::Standing;
use sichen_core::name::Name;
use sichen_engine::control::{Control, Resize};

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Paging, Params, Segments};
use super::{Api, calendars, jobs, wire};
use crate::document;

/// Applies one capacity of `body`.
pub(super) async fn apply(
    api: &Api,
    caller: &Caller,
    step: Option<Control>,
    body: &Bytes,
    read: &document::Read<CapacityDocument>,
) -> Result<wire::AppliedCapacity, Failed> {
    let document = &read.document;
    let Some(control) = step else {
        return present(api, &name_of(&document.metadata.name)?).await;
    };
    let done = control.apply_capacity(&caller.actor, document).await;
    let done = done.map_err(|error| calendars::placed(error, body, read.line))?;
    // What waits may start now.
    api.0.engine.asked(Hint::Dispatch);
    Ok(wire::AppliedCapacity {
        name: document.metadata.name.clone(),
        version: done.version,
        change: jobs::change(done.change),
    })
}

fn shown(standing: &Standing, now: jiff::Timestamp) -> wire::Capacity {
    let capacity = &standing.capacity;
    let rate = capacity.limits.rate;
    wire::Capacity {
        name: capacity.name.to_string(),
        version: capacity.ver,
        units: capacity.limits.units,
        rate: rate.map(|rate| rate.text()),
        burst: rate.map(|rate| rate.burst),
        used: standing.used,
        holds: standing.holds,
        tokens: rate.map(|rate| capacity.bucket.filled(rate, now).tokens(rate)),
        changed_at: capacity.changed_at.to_string(),
        document: None,
        holders: Vec::new(),
        waiters: Vec::new(),
    }
}

fn name_of(text: &str) -> Result<Name, Failed> {
    Name::new(text).map_err(|e| Failed::bad(format!("SC1001: the name {text:?} {e}")))
}

/// Capacities by name.
#[utoipa::path(
    get,
    path = "/capacities",
    tag = "capacities",
    params(Paging),
    responses(
        (status = 200, body = wire::CapacityPage),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    Params(paging): Params<Paging>,
) -> Answer<wire::CapacityPage> {
    let page = paging.page(|text| Name::new(text).ok())?;
    let limit = page.limit;
    let now = api.store().now().await?;
    let found = api.0.control.capacities(page).await?;
    let cursor = |standing: &Standing| standing.capacity.name.to_string();
    let next = request::next(&found, limit, cursor);
    let items = found.iter().map(|standing| shown(standing, now)).collect();
    Ok(Json(wire::CapacityPage { items, next }))
}

/// One capacity, with its document, who holds it and who waits for it: the first thousand of each.
#[utoipa::path(
    get,
    path = "/capacities/{name}",
    tag = "capacities",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = wire::Capacity),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Segments(name): Segments<String>,
) -> Answer<wire::Capacity> {
    let name = name_of(&name)?;
    let now = api.store().now().await?;
    let facts = api.0.control.capacity(&name).await?;
    let holders = facts.holders.iter().map(|hold| wire::CapacityHolder {
        run: hold.key.run.0,
        shard: hold.key.no.0,
        token: hold.token.0,
        session: hold.session.0,
        units: hold.units,
        since: hold.since.to_string(),
        until: hold.until.map(|at| at.to_string()),
    });
    let waiters = facts.waiters.iter().map(|waiter| wire::CapacityWaiter {
        run: waiter.run.0,
        namespace: waiter.job_name.namespace.to_string(),
        name: waiter.job_name.name.to_string(),
        pool: waiter.pool.to_string(),
        units: waiter.units,
        since: waiter.since.to_string(),
    });
    Ok(Json(wire::Capacity {
        document: serde_json::from_str(&facts.standing.capacity.document).ok(),
        holders: holders.collect(),
        waiters: waiters.collect(),
        ..shown(&facts.standing, now)
    }))
}

/// A capacity as an earlier attempt of the request left it, or somebody since.
async fn present(api: &Api, name: &Name) -> Result<wire::AppliedCapacity, Failed> {
    let facts = api.0.control.capacity(name).await?;
    Ok(wire::AppliedCapacity {
        name: name.to_string(),
        version: facts.standing.capacity.ver,
        change: wire::Change::Unchanged,
    })
}

/// Changes a capacity's limits live. What is held stays held: shrinking stops new grants alone.
#[utoipa::path(
    post,
    path = "/capacities/{name}/resize",
    tag = "capacities",
    params(("name" = String, Path)),
    request_body(content = wire::ResizeCapacity),
    responses(
        (status = 200, body = wire::AppliedCapacity),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resize(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<String>,
    body: Bytes,
) -> Answer<wire::AppliedCapacity> {
    let name = name_of(&name)?;
    let wanted: wire::ResizeCapacity = request::json(&body)?;
    let resize = Resize {
        units: wanted.units,
        rate: wanted.rate,
        burst: wanted.burst,
    };
    let Some(control) = caller.step(&api, 0) else {
        return Ok(Json(present(&api, &name).await?));
    };
    let done = control.resize_capacity(&caller.actor, &name, &resize);
    let done = done.await?;
    api.0.engine.asked(Hint::Dispatch);
    Ok(Json(wire::AppliedCapacity {
        name: name.to_string(),
        version: done.version,
        change: jobs::change(done.change),
    }))
}

/// Deletes a capacity that nothing uses.
#[utoipa::path(
    delete,
    path = "/capacities/{name}",
    tag = "capacities",
    params(("name" = String, Path)),
    responses(
        (status = 200, body = wire::DeletedCapacity),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Answer<wire::DeletedCapacity> {
    let name = name_of(&name)?;
    api.0.control.delete_capacity(&caller.actor, &name).await?;
    Ok(Json(wire::DeletedCapacity {
        name: name.to_string(),
    }))
}
