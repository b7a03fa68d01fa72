//! Starting runs: one, or many of a job in one request.
//!
//! # Invariants
//! - A request names what makes it the same request again: an instant, or a key.
//! - Of many, one that is refused touches none of its neighbours.
//!
//! # Not here
//! Writing them ([`sichen_engine::intake`]).

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use sichen_core::beacon::Hint;
use sichen_core::document::OverlapSpec;
use sichen_core::ids::Occasion;
use sichen_core::model::{Period, run_key};
use sichen_core::name::JobName;
use sichen_engine::control::{StartRun, Started, Which};

use super::access::Caller;
use super::answer::{Answer, Failed};
use super::request::{self, Segments};
use super::{Api, runs, wire};

/// The most runs that one request may start.
pub const MAX_STARTS: usize = 1_000;

/// Starts a run, or finds the one that its planned instant or key has already.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/runs",
    tag = "runs",
    params(
        ("namespace" = String, Path),
        ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The key, if the body gives none"),
    ),
    request_body = wire::StartRun,
    responses(
        (status = 200, body = wire::StartedRun, description = "It was there already"),
        (status = 201, body = wire::StartedRun, description = "It was written now"),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn start(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<wire::StartedRun>), Failed> {
    let name = request::job_name(name)?;
    let body: wire::StartRun = request::json(&body)?;
    let wanted = wanted(&name, body, Some(&headers))?;
    let which = wanted.which.clone();
    let started = api.0.engine.intake.start(&caller.actor, vec![wanted]).await;
    let gone = || Failed::not_found("job", name.to_string());
    let started = started.into_iter().next().ok_or_else(gone)??;
    if started.limited {
        // The trigger waits for deadlines too, and may not know of one so near.
        api.0.engine.asked(Hint::Trigger);
    }
    let status = if started.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let body = shown(&api, &name, which, started).await?;
    Ok((status, Json(body)))
}

/// Starts many runs of a job, or finds those that are there already.
///
/// They share commits; each has its own answer, in the order of the request.
#[utoipa::path(
    post,
    path = "/jobs/{namespace}/{name}/runs:batch",
    tag = "runs",
    params(
        ("namespace" = String, Path),
        ("name" = String, Path),
    ),
    request_body = wire::StartRuns,
    responses(
        (status = 200, body = wire::StartedRuns),
        (status = "default", body = wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn start_batch(
    State(api): State<Api>,
    caller: Caller,
    Segments(name): Segments<(String, String)>,
    body: Bytes,
) -> Answer<wire::StartedRuns> {
    let name = request::job_name(name)?;
    let body: wire::StartRuns = request::json(&body)?;
    let n = body.runs.len();
    if !(1..=MAX_STARTS).contains(&n) {
        return Err(Failed::bad(format!(
            "SC5027: {n} runs given; give 1 to {MAX_STARTS} a request"
        )));
    }
    let mut asked = Vec::with_capacity(n);
    let mut places = Vec::with_capacity(n);
    for run in body.runs {
        places.push(wanted(&name, run, None).map(|wanted| {
            asked.push(wanted.clone());
            wanted.which
        }));
    }
    let started = api.0.engine.intake.start(&caller.actor, asked).await;
    if started.iter().flatten().any(|started| started.limited) {
        api.0.engine.asked(Hint::Trigger);
    }
    let mut started = started.into_iter();
    let mut runs = Vec::with_capacity(n);
    for place in places {
        let answer = match (place, &mut started) {
            (Err(refused), _) => Err(refused),
            (Ok(which), started) => match started.next() {
                Some(Ok(started)) => shown(&api, &name, which, started).await,
                Some(Err(error)) => Err(error.into()),
                None => Err(Failed::not_found("job", name.to_string())),
            },
        };
        runs.push(match answer {
            Ok(run) => wire::StartedOrProblem::Started(run),
            Err(failed) => wire::StartedOrProblem::Problem(failed.into_problem()),
        });
    }
    Ok(Json(wire::StartedRuns { runs }))
}

fn wanted(
    job: &JobName,
    run: wire::StartRun,
    headers: Option<&HeaderMap>,
) -> Result<StartRun, Failed> {
    let which = which(&run, headers)?;
    let period = run.period.as_ref().map(period).transpose()?;
    let not_before = run.not_before.as_ref();
    let not_before = not_before
        .map(|at| request::instant("not_before", at))
        .transpose()?;
    Ok(StartRun {
        job: job.clone(),
        which,
        digest: digest(&run.parameters, period, not_before),
        parameters: run.parameters,
        period,
        overlap: run.overlap.map(OverlapSpec::policy),
        not_before,
    })
}

async fn shown(
    api: &Api,
    job: &JobName,
    which: Which,
    started: Started,
) -> Result<wire::StartedRun, Failed> {
    let key = match which {
        // A key is shown alike in every zone.
        Which::Manual(key) => run_key(job, &Occasion::Manual { key }, "UTC"),
        Which::Planned(_) => runs::run(api, started.run).await?.key,
    };
    Ok(wire::StartedRun {
        id: started.run.0,
        key,
        created: started.created,
    })
}

fn which(body: &wire::StartRun, headers: Option<&HeaderMap>) -> Result<Which, Failed> {
    let key = request::idempotency_key(body.key.as_deref(), headers)?;
    match (&body.planned_at, key) {
        // With a planned instant, the instant is what makes a repeated request the same one.
        (Some(at), None) => Ok(Which::Planned(request::instant("planned_at", at)?)),
        (Some(at), Some(_)) if body.key.is_none() => {
            Ok(Which::Planned(request::instant("planned_at", at)?))
        }
        (None, Some(key)) => Ok(Which::Manual(key)),
        (Some(_), Some(_)) | (None, None) => Err(Failed::bad(
            "SC5022: give either `planned_at` or `key` (or the header `Idempotency-Key`), so that \
             the same request again finds the same run",
        )),
    }
}

fn period(period: &wire::Period) -> Result<Period, Failed> {
    let start = request::instant("period.start", &period.start)?;
    let end = request::instant("period.end", &period.end)?;
    if start > end {
        return Err(Failed::bad("SC5021: period: start is after end"));
    }
    Ok(Period { start, end })
}

/// What makes two requests for one occasion the same. Empty for one that asks for nothing of its
/// own, like those of schedules.
fn digest(
    parameters: &serde_json::Map<String, Value>,
    period: Option<Period>,
    not_before: Option<Timestamp>,
) -> String {
    if parameters.is_empty() && period.is_none() && not_before.is_none() {
        return String::new();
    }
    let mut text = String::new();
    canonical(&Value::Object(parameters.clone()), &mut text);
    if let Some(period) = period {
        text.push_str(&format!(
            "{}/{}",
            period.start.as_microsecond(),
            period.end.as_microsecond()
        ));
    }
    if let Some(at) = not_before {
        text.push_str(&format!("@{}", at.as_microsecond()));
    }
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

/// JSON with its keys in order, whatever order they came in.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            out.push('{');
            for (key, value) in sorted {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}
