//! The store's clock: shown, and believed again after a step.

use axum::Json;
use axum::extract::State;
use jiff::tz::TimeZone;
use sichen_core::timekeeping::Told;

use super::access::Caller;
use super::answer::Answer;
use super::{Api, convert, wire};

fn shown(told: &Told, accepted_seconds: Option<i64>) -> wire::Clock {
    wire::Clock {
        now: convert::at(told.now, &TimeZone::UTC),
        reading: convert::at(told.wall, &TimeZone::UTC),
        ahead_seconds: told.wall.duration_since(told.now).as_secs(),
        held: told.held,
        accepted_seconds,
    }
}

/// The store's clock, and whether it is believed.
#[utoipa::path(
    get,
    path = "/clock",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Clock),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn show(State(api): State<Api>) -> Answer<wire::Clock> {
    let told = api.store().clock().await?;
    Ok(Json(shown(&told, None)))
}

/// Believes a clock that stepped ahead. What runs is given as much more time; what was planned in
/// between is decided by each job's catch-up policy.
#[utoipa::path(
    post,
    path = "/clock/accept",
    tag = "cluster",
    responses(
        (status = 200, body = wire::Clock),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn accept(State(api): State<Api>, caller: Caller) -> Answer<wire::Clock> {
    let step = match caller.step(&api, 0) {
        Some(control) => control.accept_clock(&caller.actor).await?,
        None => None,
    };
    let told = api.store().clock().await?;
    Ok(Json(shown(&told, step.map(|step| step.as_secs()))))
}

/// Why nothing fires, if the clock is why.
pub(super) fn alarm(told: &Told) -> Option<String> {
    let ahead = told.wall.duration_since(told.now).as_secs();
    told.held.then(|| {
        format!(
            "the store's clock stepped ahead by {ahead} s: nothing fires until that is accepted \
             (sichen clock accept) or the clock is right again"
        )
    })
}
