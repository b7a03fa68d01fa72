//! What a pool will have to do.
//!
//! # Not here
//! Reckoning (`sichen_core::forecast`, `sichen_engine::control::forecast`).

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use sichen_core::forecast::{Forecast, MAX_PARTS, Overbooked, Window};
use sichen_core::name::Name;
use sichen_engine::control::forecast::{Asked, JobLoad, Outlook};
use utoipa::IntoParams;

use super::answer::{Answer, Failed};
use super::request::{self, Params};
use super::{Api, wire};

/// The longest time that one forecast looks at, in milliseconds: 366 days.
pub const MAX_FORECAST_MS: i64 = 366 * 24 * 3_600 * 1_000;
/// What is looked at if the request does not say: a day in hours.
const DAY: SignedDuration = SignedDuration::from_hours(24);
const PARTS: i64 = 24;

/// Which forecast is wanted.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The pool; `default` if left out.
    pool: Option<String>,
    /// The beginning, RFC 3339; now if left out.
    from: Option<String>,
    /// The end, RFC 3339, at most 366 days later; a day later if left out.
    to: Option<String>,
    /// The length of a part, in milliseconds, at most 1,000 parts; a 24th of the time if left out.
    part_ms: Option<i64>,
    /// Slots to reckon with; those of the pool's live workers if left out.
    slots: Option<u32>,
}

/// What is to be expected of a pool's slots and of the capacities that its jobs use, from the schedules of
/// all jobs and from how long their runs took; and when more will be wanted than there is.
#[utoipa::path(
    get,
    path = "/forecast",
    tag = "cluster",
    params(Wanted),
    responses(
        (status = 200, body = wire::Forecast),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn forecast(
    State(api): State<Api>,
    Params(wanted): Params<Wanted>,
) -> Answer<wire::Forecast> {
    let pool = wanted.pool.as_deref().unwrap_or("default");
    let pool = Name::new(pool);
    let pool = pool.map_err(|e| Failed::bad(format!("SC1001: the pool's name {e}")))?;
    let window = window(&wanted, api.store().now().await?)?;
    let asked = Asked {
        pool: pool.clone(),
        window,
        slots: wanted.slots,
    };
    let told = api.0.control.forecast(asked).await?;
    Ok(Json(shown(&pool, window, &told)))
}

fn window(wanted: &Wanted, now: Timestamp) -> Result<Window, Failed> {
    let instant = |name: &str, text: &Option<String>, default: Timestamp| match text {
        Some(text) => request::instant(name, text),
        None => Ok(default),
    };
    let from = instant("from", &wanted.from, now)?;
    let to = instant("to", &wanted.to, from.saturating_add(DAY).unwrap_or(from))?;
    let length = i64::try_from(to.duration_since(from).as_millis()).unwrap_or(i64::MAX);
    if !(1..=MAX_FORECAST_MS).contains(&length) {
        return Err(Failed::bad(format!(
            "SC5021: from={from} to={to} is not a time of 1 to {MAX_FORECAST_MS} ms"
        )));
    }
    let part = wanted.part_ms.unwrap_or((length / PARTS).max(1));
    let parts = i64::try_from(MAX_PARTS).unwrap_or(i64::MAX);
    let least = length.div_euclid(parts) + i64::from(length.rem_euclid(parts) > 0);
    if part < least {
        return Err(Failed::bad(format!(
            "SC5021: part_ms={part} makes more than {MAX_PARTS} parts; at least {least} does"
        )));
    }
    let part = SignedDuration::from_millis(part);
    Ok(Window { from, to, part })
}

fn shown(pool: &Name, window: Window, told: &Outlook) -> wire::Forecast {
    let name = |no: &u32| {
        let job = usize::try_from(*no).ok().and_then(|no| told.jobs.get(no));
        job.map(|job| job.name.to_string())
    };
    let span = |span: &Overbooked| wire::Overbooked {
        from: span.from.to_string(),
        until: span.until.map(|until| until.to_string()),
        wanted: span.wanted,
        jobs: span.jobs.iter().filter_map(name).collect(),
    };
    let limit = |limit: &str, there: u32, told: &Forecast| wire::LimitForecast {
        limit: limit.to_owned(),
        there,
        rate: None,
        parts: told.parts.iter().map(part).collect(),
        overbooked: told.overbooked.iter().map(span).collect(),
    };
    let slots = limit("slots", told.slots, &told.pool);
    let capacities = told
        .capacities
        .iter()
        .map(|(name, units, told)| limit(name.as_str(), *units, told));
    let rates = told
        .rates
        .iter()
        .map(|(name, rate, told)| wire::LimitForecast {
            rate: Some(rate.text()),
            ..limit(name.as_str(), 1, told)
        });
    let limits = std::iter::once(slots).chain(capacities).chain(rates);
    wire::Forecast {
        pool: pool.to_string(),
        from: window.from.to_string(),
        to: window.to.to_string(),
        part_ms: i64::try_from(window.part.as_millis()).unwrap_or(i64::MAX),
        limits: limits.collect(),
        jobs: told.jobs.iter().map(job).collect(),
        cut: told.cut,
    }
}

fn part(part: &sichen_core::forecast::Part) -> wire::ForecastPart {
    wire::ForecastPart {
        from: part.from.to_string(),
        runs: part.runs,
        wanted: part.wanted,
        used_percent: part.used / 10,
        behind_ms: millis(part.behind),
    }
}

fn job(load: &JobLoad) -> wire::JobForecast {
    wire::JobForecast {
        namespace: load.name.namespace.to_string(),
        job: load.name.name.to_string(),
        in_pool: load.in_pool,
        runs: load.runs,
        slots: load.slots,
        length_ms: load.length.map(millis),
    }
}

fn millis(length: SignedDuration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(0)
}
